package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/pgmesh/pgmesh/deploy/containers/containerfile"
	"github.com/pgmesh/pgmesh/deploy/release/archive"
	"github.com/pgmesh/pgmesh/deploy/release/attest"
	"github.com/pgmesh/pgmesh/deploy/release/images"
)

// makeImages makes an image of each program: one for all architectures in the layout of OCI, and a file
// for each that docker and podman load.
func (r *release) makeImages(ctx context.Context) error {
	file, err := containerfile.Read(filepath.Join(r.root, "deploy", "containers", "Containerfile"))
	if err != nil {
		return err
	}
	layers := filepath.Join(r.work, "layers")
	for _, folder := range []string{layers, r.made("images")} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	maker := &images.Maker{
		File: file, Version: r.version, At: r.at, Binary: r.binary, License: filepath.Join(r.root, "LICENSE"), Work: layers,
		Bases: map[string]func(string) ([]archive.Entry, error){
			"${ENVOY_BASE}": func(arch string) ([]archive.Entry, error) { return r.envoyBase(ctx, arch) },
		},
	}
	for _, program := range programs {
		if err := r.makeImage(ctx, maker, program); err != nil {
			return fmt.Errorf("the image of %s: %w", program, err)
		}
	}
	return nil
}

func (r *release) makeImage(ctx context.Context, maker *images.Maker, program string) error {
	made := map[string]v1.Image{}
	for _, arch := range r.arches {
		image, err := maker.Image(program, arch)
		if err != nil {
			return err
		}
		made[arch] = image
		tag, err := name.NewTag("pgmesh/" + program + ":" + strings.ReplaceAll(r.version, "~", "-"))
		if err != nil {
			return err
		}
		if err := tarball.WriteToFile(r.made("images", program+"_"+arch+".tar"), tag, image); err != nil {
			return err
		}
	}
	index, err := images.Index(made, r.arches)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	payload := images.Payload("pgmesh/"+program, digest)
	signature, err := r.signer.Bare(payload)
	if err != nil {
		return err
	}
	attestations, err := r.attestImage(ctx, program, attest.Subject{Name: "pgmesh/" + program, Digest: map[string]string{"sha256": digest.Hex}})
	if err != nil {
		return err
	}
	return images.Write(r.made("images", program), strings.ReplaceAll(r.version, "~", "-"), index, payload, signature, attestations)
}

// attestImage signs what the image is made of, for each architecture, and where it comes from.
func (r *release) attestImage(ctx context.Context, program string, image attest.Subject) ([]images.Attestation, error) {
	provenance, err := r.provenance(ctx)
	if err != nil {
		return nil, err
	}
	statements := []attest.Statement{attest.About([]attest.Subject{image}, attest.Provenance, provenance)}
	for _, arch := range r.arches {
		components, err := r.componentsOfImage(ctx, program, arch)
		if err != nil {
			return nil, err
		}
		statements = append(statements, attest.About([]attest.Subject{image}, attest.Components, components))
	}
	var signed []images.Attestation
	for _, s := range statements {
		envelope, err := attest.Sign(s, r.signer)
		if err != nil {
			return nil, err
		}
		signed = append(signed, images.Attestation{Predicate: s.PredicateType, Envelope: envelope})
	}
	return signed, nil
}

// envoyBase is what an image with Envoy has below the program: Envoy, and the C library that it is
// linked with.
func (r *release) envoyBase(ctx context.Context, arch string) ([]archive.Entry, error) {
	envoy, err := r.envoy(ctx, arch)
	if err != nil {
		return nil, err
	}
	libc, _, err := r.libc(ctx, arch)
	if err != nil {
		return nil, err
	}
	entries, err := librariesIn(ctx, libc)
	return append(entries,
		archive.Entry{Name: "usr/local/bin/envoy", Mode: 0o755, File: envoy},
		archive.Entry{Name: "usr/share/doc/envoy/copyright", Mode: 0o644, File: filepath.Join(r.root, "deploy", "packages", "envoy.copyright")},
		archive.Entry{Name: "tmp", Mode: 0o1777, Folder: true}), err
}

// librariesIn returns what programs load from Debian's package of the C library, with its license.
func librariesIn(ctx context.Context, deb string) (entries []archive.Entry, err error) {
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", deb)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if ended := cmd.Wait(); err == nil {
			err = ended
		}
	}()
	for files := tar.NewReader(out); ; {
		file, err := files.Next()
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return nil, err
		}
		inside := path.Clean(file.Name)
		if file.Typeflag == tar.TypeDir || !strings.HasPrefix(inside, "lib") && inside != "usr/share/doc/libc6/copyright" {
			continue
		}
		content, err := io.ReadAll(files)
		if err != nil {
			return nil, err
		}
		entries = append(entries, archive.Entry{Name: inside, Mode: file.Mode, Link: file.Linkname, Content: content})
	}
}
