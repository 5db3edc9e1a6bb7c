// Package wasmtest gives tests an OCI registry, images in it, and Wasm modules that Envoy runs.
package wasmtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"
)

// Registry is an OCI registry on loopback, without TLS.
type Registry struct {
	Host string

	mu     sync.Mutex
	asked  map[string]int // paths of requests that read
	before http.HandlerFunc
}

// NewRegistry starts a registry, until the test ends.
func NewRegistry(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{asked: map[string]int{}}
	inner := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		before := r.before
		if q.Method == http.MethodGet {
			r.asked[q.URL.Path]++
		}
		r.mu.Unlock()
		if before != nil && q.Method == http.MethodGet {
			answer := &passing{ResponseWriter: w}
			if before(answer, q); answer.wrote {
				return
			}
		}
		inner.ServeHTTP(w, q)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	r.Host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// passing tells whether a handler answered.
type passing struct {
	http.ResponseWriter

	wrote bool
}

func (p *passing) WriteHeader(code int) { p.wrote = true; p.ResponseWriter.WriteHeader(code) }
func (p *passing) Write(b []byte) (int, error) {
	p.wrote = true
	return p.ResponseWriter.Write(b)
}

// Before has a handler answer what is read, or leave it to the registry by writing nothing. Nil
// leaves everything to the registry.
func (r *Registry) Before(h http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before = h
}

// Asked returns how often paths with a part were read.
func (r *Registry) Asked(part string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for path, times := range r.asked {
		if strings.Contains(path, part) {
			n += times
		}
	}
	return n
}

// Digest is the SHA-256 of some bytes, in hexadecimal.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// Layer is a part of an image.
type Layer struct {
	Type    string
	Content []byte
}

// Types of manifests and layers.
const (
	OCI         = "application/vnd.oci.image.manifest.v1+json"
	OCIIndex    = "application/vnd.oci.image.index.v1+json"
	Docker      = "application/vnd.docker.distribution.manifest.v2+json"
	ModuleLayer = "application/vnd.module.wasm.content.layer.v1+wasm"
	OCILayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
	DockerLayer = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// Push puts an image under a tag, as repository:tag, and returns the digest of its manifest.
func (r *Registry) Push(t testing.TB, name, mediaType string, layers ...Layer) string {
	t.Helper()
	repository, tag, _ := strings.Cut(name, ":")
	config := Layer{"application/vnd.oci.image.config.v1+json", []byte("{}")}
	described := []map[string]any{}
	for _, l := range append([]Layer{config}, layers...) {
		digest := "sha256:" + Digest(l.Content)
		r.send(t, http.MethodPost, repository+"/blobs/uploads/?digest="+digest, "application/octet-stream", l.Content)
		described = append(described, map[string]any{"mediaType": l.Type, "digest": digest, "size": len(l.Content)})
	}
	return r.PutManifest(t, repository, tag, mediaType, map[string]any{"schemaVersion": 2, "mediaType": mediaType, "config": described[0], "layers": described[1:]})
}

// PutManifest puts a manifest under a tag, and returns its digest.
func (r *Registry) PutManifest(t testing.TB, repository, tag, mediaType string, manifest map[string]any) string {
	t.Helper()
	text, err := json.Marshal(manifest)
	require.NoError(t, err)
	r.send(t, http.MethodPut, repository+"/manifests/"+tag, mediaType, text)
	return Digest(text)
}

func (r *Registry) send(t testing.TB, method, path, contentType string, content []byte) {
	t.Helper()
	request, err := http.NewRequest(method, "http://"+r.Host+"/v2/"+path, bytes.NewReader(content))
	require.NoError(t, err)
	request.Header.Set("Content-Type", contentType)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusCreated, response.StatusCode, path)
}

// PushModule puts a module under a tag, as Istio's tools do.
func (r *Registry) PushModule(t testing.TB, name string, module []byte) (digest string) {
	t.Helper()
	return r.Push(t, name, OCI, Layer{ModuleLayer, module})
}

// Archive is a compressed archive of files.
func Archive(t testing.TB, files ...[2]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		require.NoError(t, archive.WriteHeader(&tar.Header{Name: f[0], Mode: 0o644, Size: int64(len(f[1])), Typeflag: tar.TypeReg}))
		_, err := archive.Write([]byte(f[1]))
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, zipped.Close())
	return out.Bytes()
}

// Compressed compresses some bytes.
func Compressed(t testing.TB, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// Empty is a module that can be kept, and does nothing: each text makes another.
func Empty(text string) []byte {
	name := append([]byte{byte(len("note"))}, "note"...)
	section := append(append([]byte{0, byte(len(name) + len(text))}, name...), text...)
	return append([]byte{0, 'a', 's', 'm', 1, 0, 0, 0}, section...)
}
