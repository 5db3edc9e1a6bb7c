package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/pgmesh/pgmesh/deploy/release/archive"
)

// packPrograms packs all programs with what belongs to them, for machines without apt and dnf, and
// for trying: the demo is among them, and the Envoy that it runs.
func (r *release) packPrograms(ctx context.Context) error {
	for _, arch := range r.arches {
		envoy, err := r.envoy(ctx, arch)
		if err != nil {
			return err
		}
		top := fmt.Sprintf("pgmesh-%s-linux-%s", r.version, arch)
		at := func(name string) string { return path.Join(top, name) }
		entries := []archive.Entry{
			{Name: at("bin/envoy"), Mode: 0o755, File: envoy},
			{Name: at("demo"), Link: "bin/demo", Mode: 0o777},
		}
		for _, program := range append([]string{"demo"}, programs...) {
			entries = append(entries, archive.Entry{Name: at("bin/" + program), Mode: 0o755, File: r.binary(program, arch)})
		}
		for name, file := range map[string]string{
			"LICENSE": "LICENSE", "LICENSE.envoy": "deploy/packages/envoy.copyright", "CHANGELOG.md": "CHANGELOG.md",
			"README": "deploy/release/programs/README", "Makefile": "deploy/release/programs/Makefile",
			"deploy/prometheus/alerts.yaml": "deploy/prometheus/alerts.yaml",
			"deploy/grafana/mesh.json":      "deploy/grafana/mesh.json", "deploy/grafana/proxies.json": "deploy/grafana/proxies.json",
			"deploy/grafana/control-plane.json": "deploy/grafana/control-plane.json",
		} {
			entries = append(entries, archive.Entry{Name: at(name), Mode: 0o644, File: filepath.Join(r.root, file)})
		}
		for name, folder := range map[string]string{
			"docs": filepath.Join(r.root, "docs"), "deploy/ansible": filepath.Join(r.root, "deploy", "ansible"),
			"deploy/cloud-init": filepath.Join(r.root, "deploy", "cloud-init"), "deploy/compose": filepath.Join(r.root, "deploy", "compose"),
			"share/man/man1": filepath.Join(r.work, "dist", "man"), "share/completions": filepath.Join(r.work, "dist", "completions"),
			"systemd": filepath.Join(r.root, "deploy", "systemd"), "etc": filepath.Join(r.root, "deploy", "packages", "etc"),
		} {
			found, err := filesOf(folder, at(name), name == "share/man/man1")
			if err != nil {
				return err
			}
			entries = append(entries, found...)
		}
		if err := os.MkdirAll(r.made("programs"), 0o755); err != nil {
			return err
		}
		if err := archive.WriteFile(r.made("programs", top+".tar.gz"), entries, r.at); err != nil {
			return err
		}
	}
	return nil
}

// filesOf returns the files below a folder as entries below another, or, if flat, in it.
func filesOf(folder, into string, flat bool) (entries []archive.Entry, err error) {
	err = filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if flat {
			name = filepath.Base(file)
		}
		entries = append(entries, archive.Entry{Name: path.Join(into, filepath.ToSlash(name)), Mode: 0o644, File: file})
		return err
	})
	return entries, err
}

// envoy returns the Envoy for an architecture that tools/fetch-envoy pins.
func (r *release) envoy(ctx context.Context, arch string) (string, error) {
	return ask(ctx, r.root, filepath.Join("tools", "fetch-envoy"), arch)
}

// envoyVersion returns its version.
func (r *release) envoyVersion(ctx context.Context) (string, error) {
	return ask(ctx, r.root, filepath.Join("tools", "fetch-envoy"), "--version")
}

// libc returns the package of the C library that Envoy's image has, and its version.
func (r *release) libc(ctx context.Context, arch string) (file, version string, err error) {
	file, err = ask(ctx, r.root, filepath.Join("tools", "fetch-libc"), arch)
	if err != nil {
		return "", "", err
	}
	if parts := strings.Split(filepath.Base(file), "_"); len(parts) == 3 {
		version = strings.ReplaceAll(parts[1], "%3a", ":")
	}
	return file, version, nil
}
