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

// Load reads a file of keys, each a line of base64. The first seals, and the others still open what they have sealed: to change the key, put
// a new line before the old one on every server, seal everything anew, and take the old one out. The file must be its owner's alone.
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

// readOwn reads a file that must be its owner's alone.
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

// linesOf are the lines of a file that count, by their numbers: neither empty nor a comment.
func linesOf(content string) iter.Seq2[int, string] {
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
	for number, line := range linesOf(content) {
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

// NewLine makes a line for a file of keys.
func NewLine() string {
	secret := make([]byte, KeySize)
	_, _ = rand.Read(secret) // which never fails
	return base64.StdEncoding.EncodeToString(secret)
}
