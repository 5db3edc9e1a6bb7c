package snapshot

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Write writes a snapshot.
func Write(out io.Writer, h Header, entries []Entry) error {
	h.Format = Format
	first, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	sum := sha256.New()
	buffered := bufio.NewWriterSize(out, 64<<10)
	hashed := io.MultiWriter(buffered, sum)
	if _, err := hashed.Write(append(first, '\n')); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	for _, e := range entries {
		text, err := e.encode()
		if err != nil {
			return fmt.Errorf("write a snapshot: %w", err)
		}
		if _, err := hashed.Write(append(text, '\n')); err != nil {
			return fmt.Errorf("write a snapshot: %w", err)
		}
	}
	count := len(entries)
	last, err := json.Marshal(trailer{&count, hex.EncodeToString(sum.Sum(nil))})
	if err == nil {
		_, err = buffered.Write(append(last, '\n'))
	}
	if err := errors.Join(err, buffered.Flush()); err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	return nil
}

// Save writes a snapshot to a file and replaces an existing one atomically.
func Save(path string, h Header, entries []Entry) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("write a snapshot: %w", err)
	}
	err = writeFile(temporary, strings.HasSuffix(path, ".gz"), h, entries)
	err = errors.Join(err, temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary.Name()))
	}
	return nil
}

func writeFile(out io.Writer, compress bool, h Header, entries []Entry) error {
	if !compress {
		return Write(out, h, entries)
	}
	zipped := gzip.NewWriter(out)
	return errors.Join(Write(zipped, h, entries), zipped.Close())
}
