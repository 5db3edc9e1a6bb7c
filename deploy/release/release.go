package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/deploy/release/signing"
)

// release is what is made, and from what.
type release struct {
	*options
	out      io.Writer
	root     string // of the repository
	commit   string
	modified bool // files differ from the commit
	unmarked bool // programs do not say of which commit they are
	at       time.Time
	signer   *signing.Key
	work     string // folder for what is made on the way
}

// The parts of a release.
const (
	partPackages = "packages"
	partPrograms = "programs"
	partImages   = "images"
	partProvider = "provider"
)

var allParts = []string{partPackages, partPrograms, partImages, partProvider}

// programs are those of a mesh.
var programs = []string{"mcp-server", "mcp-client", "discovery", "mesh-agent"}

// folder has what is of this release alone.
func (r *release) folder() string { return filepath.Join(r.site, r.version) }

func (r *release) has(part string) bool { return slices.Contains(r.parts, part) }

// make makes the parts in a folder of their own, and publishes them when all are there.
func (r *release) make(ctx context.Context) (err error) {
	if err := os.MkdirAll(r.site, 0o755); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp(r.site, ".making-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	for _, step := range []struct {
		what string
		of   string
		do   func(context.Context) error
	}{
		{"compile the programs and package them", "", r.compile},
		{"look for the commit in the programs", "", r.markedByCommit},
		{"gather the packages", partPackages, r.gather},
		{"pack the programs", partPrograms, r.packPrograms},
		{"make the images", partImages, r.makeImages},
		{"pack the provider for Terraform", partProvider, r.packProvider},
		{"list what the programs are made of", "", r.listComponents},
		{"say where the release comes from", "", r.attest},
		{"sum up", "", r.sumUp},
		{"publish", "", r.publish},
	} {
		if step.of != "" && !r.has(step.of) {
			continue
		}
		fmt.Fprintf(r.out, "%s\n", step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	r.tell()
	return nil
}

// made is where a file of this release is until it is published.
func (r *release) made(parts ...string) string {
	return filepath.Join(append([]string{r.work, "release"}, parts...)...)
}

// binary is a program that was compiled.
func (r *release) binary(program, arch string) string {
	return filepath.Join(r.work, "dist", "tree", arch, program)
}

func (r *release) tell() {
	fmt.Fprintf(r.out, "\npgmesh %s of commit %s is in %s, signed by %s\n", r.version, r.commit, r.folder(), r.signer.Fingerprint())
	if r.modified {
		fmt.Fprintf(r.out, "NOT FOR PUBLICATION: files differ from the commit\n")
	}
	if r.unmarked {
		fmt.Fprintf(r.out, "NOT FOR PUBLICATION: the programs do not say that they are of that commit. Make releases in a clone: in a worktree of git, Go records none\n")
	}
	if r.options.key == "" {
		fmt.Fprintf(r.out, "NOT FOR PUBLICATION: the key was made for trying, and lies in %s for everybody who may read there. Sign by yours with RELEASE_KEY=file\n", r.throwaway())
	}
}
