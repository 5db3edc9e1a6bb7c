// Package mirror makes the mirror from which Terraform and OpenTofu install a provider: files that any
// web server can serve (https://opentofu.org/docs/internals/provider-network-mirror-protocol/), and
// that count as a mirror on a machine's own disk, too.
package mirror

import (
	"archive/zip"
	"compress/flate"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/dirhash"
)

// Hosts are the registries that a configuration means if it names none: OpenTofu's and Terraform's. A
// mirror is asked for what is theirs.
var Hosts = []string{"registry.opentofu.org", "registry.terraform.io"}

// Version writes a version as Terraform orders them: 1.2.3~rc1 is 1.2.3-rc1.
func Version(version string) string { return strings.ReplaceAll(version, "~", "-") }

// name is that of an archive, as a mirror on disk has to have it.
func name(provider, version, platform string) string {
	return fmt.Sprintf("terraform-provider-%s_%s_%s.zip", provider, Version(version), platform)
}

// File is what is in an archive.
type File struct {
	Name, Path string
	Mode       os.FileMode
}

// Pack writes the archive of a provider for a platform, such as linux_amd64, into a folder. It is the
// same whenever and wherever it is made from the same files.
func Pack(folder, provider, version, platform string, at time.Time, files ...File) (err error) {
	archive, err := os.Create(filepath.Join(folder, name(provider, version, platform)))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, archive.Close()) }()
	w := zip.NewWriter(archive)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestCompression) })
	for _, f := range files {
		if err := add(w, f, at); err != nil {
			return fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	return w.Close()
}

func add(w *zip.Writer, f File, at time.Time) error {
	header := &zip.FileHeader{Name: f.Name, Method: zip.Deflate, Modified: at.UTC()}
	header.SetMode(f.Mode)
	into, err := w.CreateHeader(header)
	if err != nil {
		return err
	}
	from, err := os.Open(f.Path)
	if err != nil {
		return err
	}
	defer from.Close()
	_, err = io.Copy(into, from)
	return err
}

// archive is how a mirror tells of an archive.
type archive struct {
	URL    string   `json:"url"`
	Hashes []string `json:"hashes"`
}

// Publish adds a version, whose archives are in a folder, to a mirror. The list of versions is written
// last, so that whoever reads it finds the rest.
func Publish(mirror, from, provider, version string) error {
	prefix, suffix := name(provider, version, ""), ".zip"
	prefix = strings.TrimSuffix(prefix, suffix)
	files, err := filepath.Glob(filepath.Join(from, prefix+"*"+suffix))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("there is no %s in %s", prefix+"*"+suffix, from))
	}
	archives := map[string]archive{}
	for _, file := range files {
		hashes, err := hashesOf(file)
		if err != nil {
			return err
		}
		platform := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), prefix), suffix)
		archives[platform] = archive{filepath.Base(file), hashes}
	}
	for _, host := range Hosts {
		if err := publish(filepath.Join(mirror, host, "pgmesh", provider), files, Version(version), archives); err != nil {
			return err
		}
	}
	return nil
}

func publish(folder string, files []string, version string, archives map[string]archive) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, file := range files {
		if err := os.Link(file, filepath.Join(folder, filepath.Base(file))); err != nil && !os.IsExist(err) {
			return err
		}
	}
	if err := write(filepath.Join(folder, version+".json"), map[string]any{"archives": archives}); err != nil {
		return err
	}
	var index struct {
		Versions map[string]struct{} `json:"versions"`
	}
	path := filepath.Join(folder, "index.json")
	before, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(before, &index)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if index.Versions == nil {
		index.Versions = map[string]struct{}{}
	}
	index.Versions[version] = struct{}{}
	return write(path, index)
}

// hashesOf returns the digests of an archive, by itself and by what is in it, as lock files have them.
func hashesOf(file string) ([]string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(content)
	inside, err := dirhash.HashZip(file, dirhash.Hash1)
	return []string{inside, "zh:" + hex.EncodeToString(sum[:])}, err
}

// write replaces a file by a tree of JSON.
func write(path string, tree any) error {
	text, err := json.MarshalIndent(tree, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
