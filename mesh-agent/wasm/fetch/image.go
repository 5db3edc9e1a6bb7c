package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
)

// maxManifest bounds a manifest; those of real images have a few KB.
const maxManifest = 4 << 20

// Media types of what a registry has.
const (
	ociIndex       = "application/vnd.oci.image.index.v1+json"
	ociManifest    = "application/vnd.oci.image.manifest.v1+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
)

// moduleLayers are layers that are a module as it is: that of Istio's images, and that of the
// CNCF's artifacts.
var moduleLayers = []string{"application/vnd.module.wasm.content.layer.v1+wasm", "application/wasm"}

// archiveLayers are archives of files. One file is the module.
var archiveLayers = []string{
	"application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.oci.image.layer.v1.tar", "application/vnd.docker.image.rootfs.diff.tar.gzip",
}

// moduleFile is the name of the module among the files of an image.
const moduleFile = "plugin.wasm"

// descriptor tells of something else in the registry.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	Platform  struct {
		OS           string `json:"os"`
		Architecture string `json:"architecture"`
	} `json:"platform"`
}

// manifest is an image, or an index of several.
type manifest struct {
	MediaType string       `json:"mediaType"`
	Manifests []descriptor `json:"manifests"`
	Layers    []descriptor `json:"layers"`
}

func (f *Fetcher) findImage(ctx context.Context, r Request) (*Found, error) {
	at, err := parseReference(r.URL)
	if err != nil {
		return nil, err
	}
	login, err := readCredentials(r.Credentials)
	if err != nil {
		return nil, err
	}
	c := &registryClient{fetcher: f, at: at, login: login.of(at)}
	m, digests, err := c.image(ctx)
	if err != nil {
		return nil, err
	}
	layer, err := m.module()
	if err != nil {
		return nil, err
	}
	if layer.Size > f.MaxSize {
		return nil, fmt.Errorf("the module has %d bytes, and --wasm-max-module-bytes allows %d", layer.Size, f.MaxSize)
	}
	raw, ok := hexDigest(layer.Digest)
	if !ok {
		return nil, fmt.Errorf("the image has its module by the digest %q, and only sha256 is known", layer.Digest)
	}
	if err := check(r.Digest, append(slices.Clone(digests), raw)...); err != nil {
		return nil, err
	}
	return &Found{
		Image: digests[len(digests)-1], fetcher: f, name: moduleFile, raw: raw,
		open: func(ctx context.Context) (io.ReadCloser, error) { return c.get(ctx, "blobs/sha256:"+raw) },
	}, nil
}

// image returns the image's manifest, with its digest and before that the digest of the index that
// it is in, if there is one.
func (c *registryClient) image(ctx context.Context) (*manifest, []string, error) {
	m, digest, err := c.manifest(ctx, c.at.version())
	if err != nil || len(m.Manifests) == 0 {
		return m, []string{digest}, err
	}
	inner, innerDigest, err := c.manifest(ctx, m.here().Digest)
	return inner, []string{digest, innerDigest}, err
}

// here returns the image that is for this machine. Modules are the same for all, so any other will
// do if there is none.
func (m *manifest) here() descriptor {
	for _, one := range m.Manifests {
		if one.Platform.OS == runtime.GOOS && one.Platform.Architecture == runtime.GOARCH {
			return one
		}
	}
	return m.Manifests[0]
}

// module returns the layer that the module is in.
func (m *manifest) module() (descriptor, error) {
	for _, layer := range m.Layers {
		if slices.Contains(moduleLayers, layer.MediaType) {
			return layer, nil
		}
	}
	if len(m.Layers) == 0 {
		return descriptor{}, errors.New("the image has no layers, so there is no module in it")
	}
	last := m.Layers[len(m.Layers)-1]
	if !slices.Contains(archiveLayers, last.MediaType) {
		return descriptor{}, fmt.Errorf("the image has no module: its last layer is of the type %q, and known are %s", last.MediaType,
			strings.Join(slices.Concat(moduleLayers, archiveLayers), ", "))
	}
	return last, nil
}

// manifest reads a manifest, by a tag or a digest, and returns it with its digest.
func (c *registryClient) manifest(ctx context.Context, version string) (*manifest, string, error) {
	body, err := c.get(ctx, "manifests/"+version, ociManifest, ociIndex, dockerManifest, dockerList)
	if err != nil {
		return nil, "", err
	}
	defer body.Close()
	text, err := io.ReadAll(&bounded{body, maxManifest, fmt.Errorf("it has more than %d bytes", maxManifest)})
	if err != nil {
		return nil, "", fmt.Errorf("the manifest cannot be read: %w", err)
	}
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:])
	if want, pinned := hexDigest(version); pinned && want != digest {
		return nil, "", &OtherDigest{want, []string{digest}}
	}
	m := &manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, "", errors.New("what the registry has there is no manifest of an image")
	}
	return m, digest, nil
}

// hexDigest returns the hexadecimal digits of a digest like sha256:….
func hexDigest(text string) (string, bool) {
	digits, ok := strings.CutPrefix(text, "sha256:")
	raw, err := hex.DecodeString(digits)
	return strings.ToLower(digits), ok && err == nil && len(raw) == sha256.Size
}
