// Package fetch brings Wasm modules from where plugins say that they are: from OCI registries and
// from HTTP servers.
//
// Whoever writes a plugin decides what this machine asks, and whoever is there decides what comes
// back. So package places judges each connection, and everything that is read has a bound.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/places"
)

// Request asks for a module.
type Request struct {
	// URL begins with oci://, https:// or http://.
	URL string
	// Digest is the SHA-256 that is wanted, in hexadecimal; "" for whatever is there.
	Digest string
	// Credentials are those of a registry, as the file config.json of Docker has them; "" for none.
	Credentials string
}

// Options say how modules are fetched.
type Options struct {
	Client *http.Client
	// Unverified is for the hosts in Insecure, which "*" stands for all of.
	Unverified *http.Client
	Insecure   []string
	// MaxSize bounds a module, and what it is packed in, in bytes.
	MaxSize int64
}

// Fetcher fetches modules.
type Fetcher struct{ Options }

// New returns a fetcher.
func New(o Options) *Fetcher { return &Fetcher{o} }

// Found is a module that is there and was not read yet.
type Found struct {
	// Image is the digest of the image that the module is in; "" if it is in none.
	Image string

	fetcher *Fetcher
	want    string
	open    func(context.Context) (io.ReadCloser, error)
	name    string // of the module in an archive; "" for the first
	raw     string // the digest that what is opened must have; "" for any
}

// Find finds a module, and of an image everything but the module itself.
func (f *Fetcher) Find(ctx context.Context, r Request) (*Found, error) {
	u, err := url.Parse(r.URL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%s has no host", places.Shown(r.URL))
	}
	switch u.Scheme {
	case "oci":
		return f.findImage(ctx, r)
	case "http", "https":
		return f.document(u, r), nil
	default:
		return nil, fmt.Errorf("modules are not fetched by %q: write a URL of oci, https, http or file", u.Scheme)
	}
}

// document is a module that an HTTP server has.
func (f *Fetcher) document(u *url.URL, r Request) *Found {
	return &Found{fetcher: f, want: r.Digest, open: func(ctx context.Context) (io.ReadCloser, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
		if err != nil {
			return nil, err
		}
		response, err := f.client(u.Host).Do(request)
		if err != nil {
			return nil, err
		}
		if response.StatusCode != http.StatusOK {
			return nil, errors.Join(statusError(u.String(), response.StatusCode), response.Body.Close())
		}
		return response.Body, nil
	}}
}

func statusError(at string, code int) error {
	hint := ""
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		hint = ": is the plugin's imagePullSecret right?"
	case http.StatusNotFound:
		hint = ": there is no such module"
	}
	return fmt.Errorf("%s answers with status %d%s", places.Shown(at), code, hint)
}

func (f *Fetcher) insecure(host string) bool {
	return slices.Contains(f.Insecure, host) || slices.Contains(f.Insecure, "*")
}

func (f *Fetcher) client(host string) *http.Client {
	if f.insecure(host) {
		return f.Unverified
	}
	return f.Client
}

// OtherDigest is the error for what is there and is not what was wanted.
type OtherDigest struct {
	Wanted string
	Found  []string
}

func (o *OtherDigest) Error() string {
	return fmt.Sprintf("there is sha256:%s, and the plugin wants sha256:%s: somebody replaced the module, or the plugin's sha256 is wrong",
		strings.Join(o.Found, " = sha256:"), o.Wanted)
}

// check compares what is wanted with what is there.
func check(want string, found ...string) error {
	if want == "" || slices.Contains(found, want) {
		return nil
	}
	return &OtherDigest{want, found}
}

// Save writes the module, out of what it is packed in, and returns its digest. After an error, what
// was written is of no use.
func (f *Found) Save(ctx context.Context, to io.Writer) (digest string, err error) {
	body, err := f.open(ctx)
	if err != nil {
		return "", err
	}
	defer body.Close()
	most := f.fetcher.MaxSize
	raw, module := sha256.New(), sha256.New()
	packed := io.TeeReader(bound(body, most), raw)
	content, err := unpack(packed, f.name, most)
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(io.MultiWriter(to, module), content); err != nil {
		return "", err
	}
	if _, err := io.Copy(io.Discard, packed); err != nil { // what follows the module in an archive counts for the digest
		return "", err
	}
	digest, whole := hex.EncodeToString(module.Sum(nil)), hex.EncodeToString(raw.Sum(nil))
	if f.raw != "" {
		if f.raw != whole {
			return "", fmt.Errorf("the registry sent something else than it promised: it has the digest sha256:%s, not sha256:%s", whole, f.raw)
		}
		return digest, nil
	}
	return digest, check(f.want, digest, whole)
}

// bounded is a reader that fails where there is more than may be.
type bounded struct {
	io.Reader

	left    int64
	tooMuch error
}

// bound bounds a module, and what it is packed in.
func bound(r io.Reader, most int64) *bounded {
	return &bounded{r, most, fmt.Errorf("it has more than %d bytes, which is what --wasm-max-module-bytes allows", most)}
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, b.tooMuch
	}
	return n, err
}
