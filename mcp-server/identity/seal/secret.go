package seal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/pgmesh/pgmesh/identity/credential"
)

// Store returns the stored form of a secret's values. Certificates stay readable, because they are
// public and the database watches their expiry. All other values are sealed, if there is a key.
func (k *Keys) Store(namespace, name string, data map[string][]byte) map[string]string {
	stored := make(map[string]string, len(data))
	for value, plain := range data {
		if k.Can() && !credential.IsPublic(value) {
			stored[value] = k.Seal(Place{namespace, name, value}, plain)
		} else {
			stored[value] = base64.StdEncoding.EncodeToString(plain)
		}
	}
	return stored
}

// Read undoes Store. Its error names the value that cannot be read.
func (k *Keys) Read(namespace, name string, stored map[string]string) (map[string][]byte, error) {
	data := make(map[string][]byte, len(stored))
	for value, text := range stored {
		var err error
		if IsSealed(text) {
			data[value], err = k.Open(Place{namespace, name, value}, text)
		} else if data[value], err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err != nil {
			err = errors.New("it is not base64") // the decoder's error would quote a part of it
		}
		if err != nil {
			return nil, fmt.Errorf("the value %s: %w", value, err)
		}
	}
	return data, nil
}

// Stale reports whether a secret has a value that Store would store differently now.
func (k *Keys) Stale(stored map[string]string) bool {
	for value, text := range stored {
		if !credential.IsPublic(value) && !k.Current(text) {
			return true
		}
	}
	return false
}
