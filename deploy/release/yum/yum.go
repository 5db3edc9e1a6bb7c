// Package yum makes a signed repository of .rpm packages, as dnf reads it from any web server.
package yum

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pgmesh/pgmesh/deploy/release/signing"
)

// Packages is the folder for packages in a repository.
const Packages = "packages"

// Write describes the packages of a repository, of all versions that are there, and signs the
// description.
func Write(folder string, key *signing.Key, at time.Time) error {
	files, err := filepath.Glob(filepath.Join(folder, Packages, "*.rpm"))
	if err != nil {
		return err
	}
	var all []*described
	for _, file := range files {
		d, err := describe(file)
		if err != nil {
			return fmt.Errorf("describe %s for dnf: %w", file, err)
		}
		all = append(all, d)
	}
	repodata := filepath.Join(folder, "repodata")
	if err := os.MkdirAll(repodata, 0o755); err != nil {
		return err
	}
	list := repomd{Space: "http://linux.duke.edu/metadata/repo", Revision: at.Unix()}
	for _, part := range []struct {
		kind string
		root any
	}{{"primary", primaryOf(all)}, {"filelists", filelistsOf(all)}, {"other", otherOf(all)}} {
		entry, err := writePart(repodata, part.kind, part.root, at)
		if err != nil {
			return fmt.Errorf("write the %s of the repository: %w", part.kind, err)
		}
		list.Data = append(list.Data, entry)
	}
	return writeList(repodata, list, key)
}

// writePart writes a list under a name that has its digest: readers of the list before still find
// theirs.
func writePart(folder, kind string, root any, at time.Time) (data, error) {
	text, err := marshal(root)
	if err != nil {
		return data{}, err
	}
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		return data{}, err
	}
	if _, err := w.Write(text); err != nil {
		return data{}, err
	}
	if err := w.Close(); err != nil {
		return data{}, err
	}
	sum := digest(packed.Bytes())
	name := sum + "-" + kind + ".xml.gz"
	return data{
		Kind: kind, Checksum: checksum{"sha256", "", sum}, Open: checksum{"sha256", "", digest(text)},
		Location: location{"repodata/" + name}, At: at.Unix(), Size: packed.Len(), OpenSize: len(text),
	}, os.WriteFile(filepath.Join(folder, name), packed.Bytes(), 0o644)
}

func writeList(folder string, list repomd, key *signing.Key) error {
	text, err := marshal(list)
	if err != nil {
		return err
	}
	signature, err := key.Detached(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("sign repomd.xml: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "repomd.xml.asc"), signature, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "repomd.xml"), text, 0o644)
}

func marshal(root any) ([]byte, error) {
	text, err := xml.MarshalIndent(root, "", " ")
	return append([]byte(xml.Header), append(text, '\n')...), err
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
