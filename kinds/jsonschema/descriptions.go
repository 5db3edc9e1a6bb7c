package jsonschema

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"
)

//go:embed descriptions.json.gz
var descriptionsJSON []byte

// descriptions are texts by types and fields, as those who defined the kinds describe them: go
// generate ./kinds/schema.
var descriptions = sync.OnceValue(func() (all map[string]map[string]string) {
	text, err := gzip.NewReader(bytes.NewReader(descriptionsJSON))
	if err == nil {
		err = json.NewDecoder(text).Decode(&all)
	}
	if err != nil {
		panic(fmt.Sprintf("the embedded descriptions.json is broken, generate it anew: %v", err))
	}
	return all
})

// Description says what a field of a type is for, "" if nobody has described it.
func Description(typeName, field string) string { return descriptions()[typeName][field] }
