// Package images makes images from the Containerfile without an engine: what its stages copy and say,
// and nothing that it would have to run.
package images

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pgmesh/pgmesh/deploy/containers/containerfile"
	"github.com/pgmesh/pgmesh/deploy/release/archive"
)

// Maker makes images of one version.
type Maker struct {
	File    *containerfile.File
	Version string
	At      time.Time
	// Binary returns where a program for an architecture is, and License where the license is.
	Binary  func(program, arch string) string
	License string
	// Bases has what stands for base images of others, by how the Containerfile names them.
	Bases map[string]func(arch string) ([]archive.Entry, error)
	// Work is a folder for layers.
	Work string
}

// Image makes the image of a stage.
func (m *Maker) Image(target, arch string) (v1.Image, error) {
	stage := m.File.Stages[target]
	if stage == nil {
		return nil, fmt.Errorf("the Containerfile has no stage %s", target)
	}
	layers, err := m.layers(stage, arch)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for i, entries := range layers {
		layer, err := m.layer(fmt.Sprintf("%s_%s_%d.tar.gz", target, arch, i), entries)
		if err != nil {
			return nil, err
		}
		added := mutate.Addendum{Layer: layer, MediaType: types.OCILayer, History: v1.History{Created: v1.Time{Time: m.At}, CreatedBy: "deploy/release"}}
		if image, err = mutate.Append(image, added); err != nil {
			return nil, err
		}
	}
	described, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	described = described.DeepCopy()
	described.OS, described.Architecture, described.Created = "linux", arch, v1.Time{Time: m.At}
	if err := m.configure(stage, &described.Config); err != nil {
		return nil, err
	}
	return mutate.ConfigFile(image, described)
}

func (m *Maker) layer(name string, entries []archive.Entry) (v1.Layer, error) {
	file := filepath.Join(m.Work, name)
	if err := archive.WriteFile(file, entries, m.At); err != nil {
		return nil, err
	}
	return tarball.LayerFromFile(file, tarball.WithMediaType(types.OCILayer))
}

// layers returns what is in each layer: the base, if the stage has one, and what is copied.
func (m *Maker) layers(stage *containerfile.Stage, arch string) ([][]archive.Entry, error) {
	var layers [][]archive.Entry
	bottom := stage
	for m.File.Stages[bottom.From] != nil {
		bottom = m.File.Stages[bottom.From]
	}
	if bottom.From != "scratch" {
		base := m.Bases[bottom.From]
		if base == nil {
			return nil, fmt.Errorf("nothing stands for the base %s of %s", bottom.From, stage.Name)
		}
		entries, err := base(arch)
		if err != nil {
			return nil, err
		}
		layers = append(layers, entries)
	}
	var copied []archive.Entry
	for _, rest := range stage.All("COPY") {
		entry, err := m.copied(rest, arch)
		if err != nil {
			return nil, fmt.Errorf("COPY %s of %s: %w", rest, stage.Name, err)
		}
		copied = append(copied, entry)
	}
	return append(layers, copied), nil
}

var copying = regexp.MustCompile(`^--from=build (?:--chown=(\d+):\d+ )?(\S+) /(\S+)$`)

// copied returns what a COPY from the build stage puts into the image.
func (m *Maker) copied(rest, arch string) (archive.Entry, error) {
	parts := copying.FindStringSubmatch(rest)
	if parts == nil {
		return archive.Entry{}, errors.New("only copies from the build stage are understood")
	}
	e := archive.Entry{Name: parts[3], Mode: 0o644}
	if parts[1] != "" {
		if _, err := fmt.Sscan(parts[1], &e.Owner); err != nil {
			return archive.Entry{}, err
		}
	}
	program, isProgram := strings.CutPrefix(parts[2], "/out/")
	switch {
	case isProgram:
		e.Mode, e.File = 0o755, m.Binary(program, arch)
	case parts[2] == "/etc/ssl/certs/ca-certificates.crt":
		e.Content = Authorities()
	case parts[2] == "/src/LICENSE":
		e.File = m.License
	case parts[2] == "/empty":
		e.Folder, e.Mode = true, 0o700
	default:
		return archive.Entry{}, fmt.Errorf("the build stage makes no %s that is known here", parts[2])
	}
	if e.File != "" {
		if _, err := os.Stat(e.File); err != nil {
			return archive.Entry{}, err
		}
	}
	return e, nil
}
