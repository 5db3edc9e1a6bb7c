// Package tlsfiles makes TLS configurations of PEM files, for servers and clients, and keeps them as new as the files are: a
// certificate that is renewed is in force a second later, for connections that begin then, without a restart.
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

	"github.com/pgmesh/pgmesh/internal/reload"
)

// Server says which files a server shows and trusts.
type Server struct {
	Cert, Key string
	ClientCA  string // whose certificates clients may come with; none if empty
}

// Flags declares the flags of the files.
func (s *Server) Flags(f *pflag.FlagSet) {
	f.StringVar(&s.Cert, "tls-cert", "", "PEM file with the server's certificate, and those between it and its authority; it is read again when it changes")
	f.StringVar(&s.Key, "tls-key", "", "PEM file with the key of --tls-cert")
	f.StringVar(&s.ClientCA, "client-ca", "", "PEM file with the authorities that vouch for clients' certificates")
}

// Given tells whether there is to be TLS.
func (s *Server) Given() bool { return s.Cert != "" || s.Key != "" || s.ClientCA != "" }

// ServerFiles are the files of a server as they are.
type ServerFiles struct{ files *reload.Value[*tls.Config] }

// Load reads the files.
func (s *Server) Load(o reload.Options, metrics prometheus.Registerer) (*ServerFiles, error) {
	if s.Cert == "" || s.Key == "" {
		return nil, errors.New("--tls-cert and --tls-key belong together: give both")
	}
	expiry := newExpiry(metrics)
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

// Config is the configuration for a listener, which takes what is newest for each connection. Protocols are what is spoken over it,
// the best first: "h2", "http/1.1".
func (f *ServerFiles) Config(protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: protocols,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := f.files.Get().Clone()
			c.NextProtos = protocols
			// A session that is resumed does not show its certificate again, which may have been issued by an authority that is gone.
			c.SessionTicketsDisabled = true
			return c, nil
		},
	}
}

// Run keeps the files new until the context ends.
func (f *ServerFiles) Run(ctx context.Context) error { return f.files.Run(ctx) }

// expiry tells when certificates end. Without metrics it is nil.
type expiry struct{ notAfter *prometheus.GaugeVec }

func newExpiry(r prometheus.Registerer) *expiry {
	if r == nil {
		return nil
	}
	e := &expiry{prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "tls_not_after_seconds", Help: "When a certificate that is in use ends to be valid, the first of several, as a Unix time.",
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
