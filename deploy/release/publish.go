package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// The names of the public key: for apt, dnf and gpg, and for cosign.
const (
	publicKey    = "pgmesh.asc"
	publicKeyPEM = "pgmesh.pem"
)

// sumUp writes the digests of all files of the release, and signs them.
func (r *release) sumUp(context.Context) error {
	sums, err := sumsOf(r.made())
	if err != nil {
		return err
	}
	signature, err := r.signer.Detached(strings.NewReader(sums))
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.made("SHA256SUMS.asc"), signature, 0o644); err != nil {
		return err
	}
	return os.WriteFile(r.made("SHA256SUMS"), []byte(sums), 0o644)
}

// sumsOf lists the files below a folder with their digests, as sha256sum does.
func sumsOf(folder string) (string, error) {
	var list strings.Builder
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		sum, err := sumOf(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(folder, path)
		fmt.Fprintf(&list, "%s  %s\n", sum, filepath.ToSlash(name))
		return err
	})
	return list.String(), err
}

func sumOf(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// publish puts the release into the site, and then tells apt, dnf and Terraform of it.
func (r *release) publish(context.Context) error {
	key, err := r.signer.Public()
	if err != nil {
		return err
	}
	forCosign, err := r.signer.PublicPEM()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		publicKey: key, publicKeyPEM: forCosign, "pgmesh.sources": []byte(r.sources(key)), "pgmesh.repo": []byte(r.repo()),
	} {
		if err := os.WriteFile(filepath.Join(r.site, name), content, 0o644); err != nil {
			return err
		}
	}
	if err := os.Rename(r.made(), r.folder()); err != nil {
		return err
	}
	if err := r.publishPackages(); err != nil {
		return err
	}
	return r.publishProvider()
}

// sources is how apt is told of the repository: a file of /etc/apt/sources.list.d, with the key in it.
func (r *release) sources(key []byte) string {
	var indented strings.Builder
	for line := range strings.Lines(strings.TrimSpace(string(key)) + "\n") {
		if line == "\n" {
			line = ".\n"
		}
		indented.WriteString(" " + line)
	}
	return fmt.Sprintf("Types: deb\nURIs: %s/apt\nSuites: stable\nComponents: main\nSigned-By:\n%s", r.url, &indented)
}

// repo is how dnf is told of it: a file of /etc/yum.repos.d.
func (r *release) repo() string {
	return fmt.Sprintf("[pgmesh]\nname=pgmesh\nbaseurl=%s/yum\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=%s/%s\n", r.url, r.url, publicKey)
}
