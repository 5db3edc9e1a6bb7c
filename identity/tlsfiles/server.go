// Package tlsfiles makes TLS configurations from PEM files, for servers and clients, and reloads
// changed files: new connections use a renewed certificate about a second later, without a restart.
package tlsfiles

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
)

// Server names the files of a TLS server.
type Server struct {
	Cert, Key string
	ClientCA  string // authorities of client certificates; empty: clients need none
}

// Flags declares the flags of the files.
func (s *Server) Flags(f *pflag.FlagSet) {
	f.StringVar(&s.Cert, "tls-cert", "", "PEM file with the server's certificate, and those between it and its authority; it is read again when it changes")
	f.StringVar(&s.Key, "tls-key", "", "PEM file with the key of --tls-cert")
	f.StringVar(&s.ClientCA, "client-ca", "", "PEM file with the authorities that vouch for clients' certificates")
}

// Given reports whether any file for TLS is given.
func (s *Server) Given() bool { return s.Cert != "" || s.Key != "" || s.ClientCA != "" }

// ServerFiles are a server's loaded files.
type ServerFiles struct{ files *reload.Value[*tls.Config] }

// Load reads the files. The metric of the program that is called notAfter says when certificates
// end.
func (s *Server) Load(o reload.Options, metrics prometheus.Registerer, notAfter string) (*ServerFiles, error) {
	if s.Cert == "" || s.Key == "" {
		return nil, errors.New("--tls-cert and --tls-key belong together: give both")
	}
	expiry := newExpiry(metrics, notAfter)
	paths := []string{s.Cert, s.Key}
	if s.ClientCA != "" {
		paths = append(paths, s.ClientCA)
	}
	o.What = "server certificate"
	files, err := reload.Load(o, func(contents [][]byte) (*tls.Config, error) { return s.configure(contents, expiry) }, paths...)
	if err != nil {
		return nil, err
	}
	return &ServerFiles{files}, nil
}

func (s *Server) configure(contents [][]byte, e *expiry) (*tls.Config, error) {
	pair, err := parsePair(contents[0], contents[1], s.Cert, s.Key)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}
	if len(contents) > 2 {
		authorities, err := parseAuthorities(contents[2], s.ClientCA)
		if err != nil {
			return nil, err
		}
		c.ClientCAs = poolOf(authorities)
		c.ClientAuth = tls.VerifyClientCertIfGiven // a token will do instead
		e.set("client authorities", authorities...)
	}
	e.set("server certificate", pair.Leaf)
	return c, nil
}

// Config returns the configuration of a listener, which uses the newest files for each connection.
// protocols are for ALPN, the preferred first: "h2", "http/1.1".
func (f *ServerFiles) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := f.files.Get().Clone()
			c.NextProtos = protocols
			// A resumed session would not verify the client's certificate again, whose authority
			// may be gone.
			c.SessionTicketsDisabled = true
			return c, nil
		},
	}
}

// Run reloads changed files until ctx ends.
func (f *ServerFiles) Run(ctx context.Context) error { return f.files.Run(ctx) }

// expiry is the metric of when certificates end. A nil *expiry does nothing.
type expiry struct{ notAfter *prometheus.GaugeVec }

func newExpiry(r prometheus.Registerer, name string) *expiry {
	if r == nil {
		return nil
	}
	e := &expiry{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: name, Help: "When a certificate that is in use ends to be valid, the first of several, as a Unix time.",
	}, []string{"what"})}
	r.MustRegister(e.notAfter)
	return e
}

func (e *expiry) set(what string, certificates ...*x509.Certificate) {
	if e == nil {
		return
	}
	first := certificates[0].NotAfter
	for _, c := range certificates {
		if c.NotAfter.Before(first) {
			first = c.NotAfter
		}
	}
	e.notAfter.WithLabelValues(what).Set(float64(first.Unix()))
}

func parsePair(cert, key []byte, certFile, keyFile string) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return pair, fmt.Errorf("%s and %s: %w", certFile, keyFile, err)
	}
	if now := time.Now(); now.After(pair.Leaf.NotAfter) {
		return pair, fmt.Errorf("%s: the certificate has expired at %s", certFile, pair.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	return pair, nil
}
