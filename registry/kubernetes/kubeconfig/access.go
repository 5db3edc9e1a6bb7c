package kubeconfig

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
)

// Access is where a cluster is, and who asks.
type Access struct {
	Server *url.URL

	name  string // in the server's certificate, if it is not that of its address
	roots func() *x509.CertPool
	pair  func() *tls.Certificate
	token func() string
}

// Authorize adds the token to a request.
func (a *Access) Authorize(h http.Header) error {
	if a.token == nil {
		return nil
	}
	if a.Server.Scheme != "https" {
		return errors.New("a token is sent over TLS alone: write server as https://HOST:PORT")
	}
	h.Set("Authorization", "Bearer "+a.token())
	return nil
}

// TLS is the configuration of a new connection.
func (a *Access) TLS() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: a.name}
	if a.roots != nil {
		config.RootCAs = a.roots()
	}
	if a.pair != nil {
		config.Certificates = []tls.Certificate{*a.pair()}
	}
	return config
}

// load takes what a kubeconfig has, and reads the files that it names. What stands in it counts before
// files, as for kubectl.
func (a *Access) load(o reload.Options, c cluster, u user, folder string) (err error) {
	a.name = c.TLSServerName
	if len(c.CAData) > 0 || c.CA != "" {
		if a.roots, err = source(o, "authority of Kubernetes", rootsOf, part{c.CAData, c.CA}.in(folder)); err != nil {
			return err
		}
	}
	cert, key := part{u.CertData, u.Cert}.in(folder), part{u.KeyData, u.Key}.in(folder)
	switch {
	case cert.given() != key.given():
		return errors.New("a certificate and its key belong together: give client-certificate and client-key")
	case cert.given():
		if a.pair, err = source(o, "certificate for Kubernetes", pairOf, cert, key); err != nil {
			return err
		}
	}
	if token := (part{[]byte(u.Token), u.TokenFile}).in(folder); token.given() {
		a.token, err = source(o, "token for Kubernetes", tokenOf, token)
	}
	return err
}

// part is something that stands in a kubeconfig, or in a file that it names.
type part struct {
	inline []byte
	path   string
}

// in is the part of a kubeconfig in a folder: paths begin there.
func (p part) in(folder string) part {
	if p.path != "" && !filepath.IsAbs(p.path) {
		p.path = filepath.Join(folder, p.path)
	}
	return p
}

func (p part) given() bool { return len(p.inline) > 0 || p.path != "" }

// source returns what is made of parts, as new as their files are.
func source[T any](o reload.Options, what string, made func(contents [][]byte) (T, error), parts ...part) (func() T, error) {
	var paths []string
	for _, p := range parts {
		if len(p.inline) == 0 {
			paths = append(paths, p.path)
		}
	}
	o.What = what
	value, err := reload.Load(o, func(contents [][]byte) (T, error) {
		all := make([][]byte, len(parts))
		for i, p := range parts {
			if all[i] = p.inline; len(p.inline) == 0 {
				all[i], contents = contents[0], contents[1:]
			}
		}
		return made(all)
	}, paths...)
	if err != nil {
		return nil, err
	}
	return value.Fresh, nil
}

func rootsOf(contents [][]byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(contents[0]) {
		return nil, errors.New("there is no certificate in it, in PEM form")
	}
	return pool, nil
}

func pairOf(contents [][]byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, err
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) {
		return nil, fmt.Errorf("the certificate has expired at %s", pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return &pair, nil
}

func tokenOf(contents [][]byte) (string, error) {
	token := bytes.TrimSpace(contents[0])
	switch {
	case len(token) == 0:
		return "", errors.New("there is no token in it")
	case bytes.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "", errors.New("there is more than a token in it")
	}
	return string(token), nil
}
