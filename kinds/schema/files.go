package schema

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"sync"
)

// Files are the texts of files by their names.
type Files map[string]string

// The files that people write. Programs have them compressed: go generate ./kinds/schema.
const (
	ruleFiles       = "rules/*.yaml"
	unsupportedFile = "unsupported.yaml"
)

// ReadFiles reads them.
func ReadFiles(folder fs.FS) (Files, error) {
	names, err := fs.Glob(folder, ruleFiles)
	if err != nil {
		return nil, err
	}
	files := Files{}
	for _, name := range append(names, unsupportedFile) {
		text, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		files[name] = string(text)
	}
	return files, nil
}

//go:embed files.json.gz
var filesJSON []byte

var files = sync.OnceValue(func() (all Files) {
	if err := decompress(filesJSON, &all); err != nil {
		panic(fmt.Sprintf("the embedded files.json is broken, generate it anew: %v", err))
	}
	return all
})

// decompress reads compressed JSON.
func decompress(compressed []byte, into any) error {
	text, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		return err
	}
	return json.NewDecoder(text).Decode(into)
}
