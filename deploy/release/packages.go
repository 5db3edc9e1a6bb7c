package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/deploy/release/apt"
	"github.com/pgmesh/pgmesh/deploy/release/yum"
)

// compile compiles all programs, and packages those that people install, with the script of make
// packages.
func (r *release) compile(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(r.root, "deploy", "packages", "build"))
	formats, packaged := "", programs
	if r.has(partPackages) {
		formats, packaged = "deb rpm", append(slices.Clip(packaged), "envoy")
	}
	var provided []string
	if r.has(partProvider) {
		provided = r.platforms()
	}
	cmd.Env = append(os.Environ(), "PROVIDER="+strings.Join(provided, " "), "VERSION="+r.version, "ARCHES="+strings.Join(r.arches, " "), "FORMATS="+formats,
		"PROGRAMS="+strings.Join(packaged, " "), "ALSO=deploy/demo deploy/containers/ready",
		"DIST="+filepath.Join(r.work, "dist"), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.at.Unix()),
		"PATH="+filepath.Join(r.root, ".tools", "bin")+string(filepath.ListSeparator)+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = r.out, r.out
	return cmd.Run()
}

// gather signs packages for rpm; those for apt are trusted by the list that has their digests.
func (r *release) gather(context.Context) error {
	if err := os.MkdirAll(r.made("packages"), 0o755); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(r.work, "dist", "pgmesh-*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		to := r.made("packages", filepath.Base(file))
		before := filepath.Join(r.repositoryOf(file), filepath.Base(file))
		_, err := os.Stat(before)
		switch {
		case err == nil: // this version of Envoy was in an earlier release, whose file machines have
			err = os.Link(before, to)
		case filepath.Ext(file) == ".rpm":
			err = yum.Sign(file, to, r.signer)
		default:
			err = os.Rename(file, to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// repositoryOf is the folder in which a repository has a package.
func (r *release) repositoryOf(file string) string {
	if filepath.Ext(file) == ".rpm" {
		return filepath.Join(r.site, "yum", yum.Packages)
	}
	return filepath.Join(r.site, "apt", apt.Pool)
}

// publishPackages adds the packages to the repositories.
func (r *release) publishPackages() error {
	files, err := filepath.Glob(filepath.Join(r.folder(), "packages", "*"))
	if err != nil {
		return err
	}
	for _, file := range files {
		folder := r.repositoryOf(file)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		if err := os.Link(file, filepath.Join(folder, filepath.Base(file))); err != nil && !os.IsExist(err) {
			return err
		}
	}
	if err := apt.Write(filepath.Join(r.site, "apt"), r.signer, r.at); err != nil {
		return err
	}
	return yum.Write(filepath.Join(r.site, "yum"), r.signer, r.at)
}
