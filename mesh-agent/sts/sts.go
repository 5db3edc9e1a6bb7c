// Package sts exchanges tokens for applications and proxies of the machine (RFC 8693). They send a form to a port of loopback; the agent sends it on to a
// server of tokens, to which it shows the machine's certificate (RFC 8705), and remembers the answer for as long as it counts.
//
// A token is for who asked and nobody else: none is in a log, an error or a metric, and none is on disk.
package sts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/panics"
)

// Options say who exchanges tokens, and as whom.
type Options struct {
	Listen   string // host:port on loopback
	Upstream string // the token endpoint: a URL of https
	// SubjectTokenFile has the token to exchange for those who have none themselves. It is read each time. SubjectTokenType says what it is.
	SubjectTokenFile, SubjectTokenType string
	// ClientID is who this machine is to the server, if it wants to be told beside the certificate.
	ClientID string
	// Certificate is the machine's, as it is now; nil if it has none.
	Certificate func() *tls.Certificate
	// Roots vouch for the server; nil are those of this machine.
	Roots *x509.CertPool

	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Server exchanges tokens.
type Server struct {
	Options

	listener net.Listener
	client   *http.Client
	cache    *cache
	flights  singleflight.Group
	places   chan struct{}
	metrics  *metrics
}

const (
	// within is how long an exchange may take.
	within = 15 * time.Second
	// parallel bounds exchanges at the same time.
	parallel = 64
	// remembered bounds tokens in memory.
	remembered = 1000
)

// Path is where tokens are exchanged.
const Path = "/token"

// Open checks the options and listens. Run serves.
func Open(o Options) (*Server, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	l, err := listen.TCP("sts-listen", o.Listen)
	if err != nil {
		return nil, err
	}
	s := &Server{Options: o, listener: l, cache: newCache(remembered), places: make(chan struct{}, parallel)}
	s.metrics = newMetrics(o.Metrics, s.cache)
	s.client = &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: o.Roots,
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.certificate(), nil },
			},
			DisableKeepAlives: true, // each exchange shows the certificate that there is, to which its token may be bound
		},
		// Who is sent elsewhere would tell the token there.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return s, nil
}

func (o *Options) check() error {
	if !listen.Loopback(o.Listen) {
		return fmt.Errorf("--sts-listen %s: whoever reaches it gets tokens of this machine: choose an address on loopback, as 127.0.0.1:15463", o.Listen)
	}
	u, err := url.Parse(o.Upstream)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errors.New("--sts-upstream: expected the URL of a token endpoint, by https and without a password, as https://tokens.example/oauth2/token")
	}
	if o.SubjectTokenFile != "" {
		if _, err := os.Stat(o.SubjectTokenFile); err != nil {
			return fmt.Errorf("--sts-subject-token-file: %w", err)
		}
	}
	if !knownType(o.SubjectTokenType) {
		return fmt.Errorf("--sts-subject-token-type %s: expected one of RFC 8693, as %s", o.SubjectTokenType, typeJWT)
	}
	return nil
}

// certificate has something for who asks, for to have none is an empty one.
func (s *Server) certificate() *tls.Certificate {
	if s.Certificate != nil {
		if c := s.Certificate(); c != nil {
			return c
		}
	}
	return &tls.Certificate{}
}

// Address is where it listens.
func (s *Server) Address() string { return s.listener.Addr().String() }

// Run serves until the context ends.
func (s *Server) Run(ctx context.Context) error {
	server := &http.Server{
		Handler: panics.Handler(s.handler()), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(s.Log.Handler(), slog.LevelDebug),
	}
	ended := make(chan struct{})
	stopped := context.AfterFunc(ctx, func() {
		defer close(ended)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // for who is nearly done
		defer cancel()
		if server.Shutdown(ctx) != nil {
			server.Close()
		}
	})
	err := server.Serve(s.listener)
	if stopped() {
		return fmt.Errorf("serve the exchange of tokens: %w", err)
	}
	<-ended
	return nil
}
