package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pgmesh/pgmesh/deploy/release/mirror"
)

// provider is the name of what Terraform installs.
const provider = "pgmesh"

// platforms are those that people run Terraform on: their own machines, too.
func (r *release) platforms() (all []string) {
	for _, system := range []string{"linux", "darwin"} {
		for _, arch := range r.arches {
			all = append(all, system+"_"+arch)
		}
	}
	return all
}

// providerBinary is the provider for Terraform, as it was compiled for a platform.
func (r *release) providerBinary(platform string) string {
	return filepath.Join(r.work, "dist", "provider", platform, "terraform-provider-"+provider)
}

// packProvider packs the provider for each platform.
func (r *release) packProvider(context.Context) error {
	folder := r.made("provider")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, platform := range r.platforms() {
		err := mirror.Pack(folder, provider, r.version, platform, r.at,
			mirror.File{Name: "LICENSE", Path: filepath.Join(r.root, "LICENSE"), Mode: 0o644},
			mirror.File{Name: fmt.Sprintf("terraform-provider-%s_v%s", provider, mirror.Version(r.version)), Path: r.providerBinary(platform), Mode: 0o755})
		if err != nil {
			return err
		}
	}
	return nil
}

// publishProvider adds the provider to the mirror of the site.
func (r *release) publishProvider() error {
	if !r.has(partProvider) {
		return nil
	}
	return mirror.Publish(filepath.Join(r.site, "terraform"), filepath.Join(r.folder(), "provider"), provider, r.version)
}
