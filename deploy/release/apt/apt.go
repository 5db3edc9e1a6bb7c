// Package apt makes a signed repository of .deb packages, as apt reads it from any web server.
package apt

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/deploy/release/signing"
)

// suite and component are what stands in a sources file after the address.
const (
	suite     = "stable"
	component = "main"
)

// Pool is the folder for packages in a repository.
const Pool = "pool"

// index is a file that the Release file lists, by its path from there.
type index struct {
	path    string
	content []byte
}

// Write describes the packages in the repository's pool, of all versions that are there, and signs the
// description.
func Write(folder string, key *signing.Key, at time.Time) error {
	files, err := filepath.Glob(filepath.Join(folder, Pool, "*.deb"))
	if err != nil {
		return err
	}
	entries := map[string][]string{} // by architecture
	for _, file := range files {
		arch, entry, err := describe(file)
		if err != nil {
			return fmt.Errorf("describe %s for apt: %w", file, err)
		}
		entries[arch] = append(entries[arch], entry)
	}
	var arches []string
	var indexes []index
	for arch, of := range entries {
		arches = append(arches, arch)
		slices.Sort(of)
		text := []byte(strings.Join(of, "\n"))
		packed, err := compress(text)
		if err != nil {
			return err
		}
		name := component + "/binary-" + arch + "/Packages"
		indexes = append(indexes, index{name, text}, index{name + ".gz", packed})
	}
	slices.Sort(arches)
	slices.SortFunc(indexes, func(a, b index) int { return strings.Compare(a.path, b.path) })
	return publish(filepath.Join(folder, "dists", suite), indexes, release(arches, indexes, at), key)
}

// release returns the file that everything else is trusted by.
func release(arches []string, indexes []index, at time.Time) []byte {
	var text bytes.Buffer
	fmt.Fprintf(&text, "Origin: pgmesh\nLabel: pgmesh\nSuite: %s\nCodename: %s\nDate: %s\nAcquire-By-Hash: yes\nArchitectures: %s\nComponents: %s\n"+
		"Description: pgmesh, a service mesh for machines, run from Postgres\nSHA256:\n",
		suite, suite, at.UTC().Format(time.RFC1123), strings.Join(arches, " "), component)
	for _, i := range indexes {
		fmt.Fprintf(&text, " %s %d %s\n", digest(i.content), len(i.content), i.path)
	}
	return text.Bytes()
}

// publish writes the Release file last: until then, readers find what it listed before under the
// digests of that.
func publish(folder string, indexes []index, release []byte, key *signing.Key) error {
	for _, i := range indexes {
		for _, name := range []string{i.path, path.Join(path.Dir(i.path), "by-hash/SHA256", digest(i.content))} {
			if err := write(filepath.Join(folder, name), i.content); err != nil {
				return err
			}
		}
	}
	signature, err := key.Detached(bytes.NewReader(release))
	if err != nil {
		return fmt.Errorf("sign the Release file: %w", err)
	}
	signed, err := key.Clear(release)
	if err != nil {
		return fmt.Errorf("sign the InRelease file: %w", err)
	}
	for name, content := range map[string][]byte{"Release": release, "Release.gpg": signature, "InRelease": signed} {
		if err := write(filepath.Join(folder, name), content); err != nil {
			return err
		}
	}
	return nil
}

func write(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}

func compress(text []byte) ([]byte, error) {
	var into bytes.Buffer
	w, err := gzip.NewWriterLevel(&into, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err = w.Close()
	return into.Bytes(), err
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
