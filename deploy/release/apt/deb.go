package apt

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/blakesmith/ar"
)

var archOf = regexp.MustCompile(`(?m)^Architecture: (\S+)$`)

// describe returns the architecture of a package, and its entry in the list of packages: what the
// package says of itself, and where its file is.
func describe(file string) (arch, entry string, err error) {
	f, err := os.Open(file)
	if err != nil {
		return "", "", err
	}
	defer f.Close()
	control, err := controlOf(f)
	if err != nil {
		return "", "", err
	}
	found := archOf.FindStringSubmatch(control)
	if found == nil {
		return "", "", errors.New("it does not say for which architecture it is")
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", "", err
	}
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return "", "", err
	}
	return found[1], fmt.Sprintf("%s\nFilename: %s\nSize: %d\nSHA256: %s\n",
		strings.TrimRight(control, "\n"), path.Join(Pool, filepath.Base(file)), size, hex.EncodeToString(sum.Sum(nil))), nil
}

// controlOf returns the file control of a package, as nfpm packs it.
func controlOf(deb io.Reader) (string, error) {
	members := ar.NewReader(deb)
	for {
		member, err := members.Next()
		if err != nil {
			return "", fmt.Errorf("find control.tar.gz: %w", err)
		}
		if strings.TrimSuffix(member.Name, "/") == "control.tar.gz" {
			return fileIn(members, "control")
		}
	}
}

func fileIn(packed io.Reader, name string) (string, error) {
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return "", err
	}
	files := tar.NewReader(unpacked)
	for {
		file, err := files.Next()
		if err != nil {
			return "", fmt.Errorf("find %s in control.tar.gz: %w", name, err)
		}
		if path.Clean(file.Name) == name {
			text, err := io.ReadAll(files)
			return string(text), err
		}
	}
}
