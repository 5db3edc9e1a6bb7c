package seal

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"
)

// Load reads a file of keys, one in base64 on each line. The first key seals; the others open what
// they sealed. To change the key, add a line before the old one on every server, seal everything
// again, and remove the old line. Only the file's owner may have access to it.
func Load(path string) (*Keys, error) {
	content, err := readOwn(path)
	if err != nil {
		return nil, err
	}
	keys, err := parse(string(content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return keys, nil
}

// readOwn reads a file that only its owner may access.
func readOwn(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, &fs.PathError{Op: "read", Path: path, Err: fmt.Errorf("others than its owner may read or write it (%s): chmod 600 %s", info.Mode().Perm(), path)}
	}
	return os.ReadFile(path)
}

// keyLines yields the lines of a file, with their numbers, without empty lines and comments.
func keyLines(content string) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		number := 0
		for line := range strings.Lines(content) {
			number++
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") && !yield(number, line) {
				return
			}
		}
	}
}

func parse(content string) (*Keys, error) {
	var secrets [][]byte
	for number, line := range keyLines(content) {
		secret, err := base64.StdEncoding.DecodeString(line)
		if err != nil || len(secret) != KeySize {
			return nil, fmt.Errorf("line %d is not base64 of %d bytes: make one with mcp-server secrets key, or openssl rand -base64 %[2]d", number, KeySize)
		}
		secrets = append(secrets, secret)
	}
	if len(secrets) == 0 {
		return nil, errors.New("there is no key in it: make one with mcp-server secrets key")
	}
	return New(secrets...)
}

// NewLine returns a new key as a line for a file of keys.
func NewLine() string {
	secret := make([]byte, KeySize)
	_, _ = rand.Read(secret) // which never fails
	return base64.StdEncoding.EncodeToString(secret)
}
