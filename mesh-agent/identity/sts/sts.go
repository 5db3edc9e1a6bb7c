// Package sts exchanges tokens for the machine's applications and proxies (RFC 8693). They post a
// form to a loopback port; the agent forwards it to a token endpoint, authenticated by the
// machine's certificate (RFC 8705), and caches the answer while it is valid.
//
// Tokens are secret: they appear in no log, error or metric, and are never written to disk.
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

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/listen"
)

// Options configure a Server.
type Options struct {
	Listen   string // host:port on loopback
	Upstream string // URL of the token endpoint, https
	// SubjectTokenFile has the token for requests without one, and SubjectTokenType its type. The
	// file is read each time.
	SubjectTokenFile, SubjectTokenType string
	// ClientID identifies this machine to the endpoint, if it needs that beside the certificate.
	ClientID string
	// Certificate returns the machine's present certificate, or nil.
	Certificate func() *tls.Certificate
	// Roots verify the endpoint; nil means the system's. Wanted reads them from RootsFile.
	Roots     *x509.CertPool
	RootsFile string

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
	slots    chan struct{}
	metrics  *metrics
}

const (
	// exchangeTimeout bounds an exchange.
	exchangeTimeout = 15 * time.Second
	// maxExchanges bounds concurrent exchanges.
	maxExchanges = 64
	// cacheSize bounds the cached tokens.
	cacheSize = 1000
)

// Path is the path of the service.
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
	s := &Server{Options: o, listener: l, cache: newCache(cacheSize), slots: make(chan struct{}, maxExchanges)}
	s.metrics = newMetrics(o.Metrics, s.cache)
	s.client = &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: o.Roots,
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return s.certificate(), nil },
			},
			DisableKeepAlives: true, // each exchange has to show the present certificate, as its token may be bound to it
		},
		// A redirect would send the token elsewhere.
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

// certificate returns an empty certificate if there is none, as crypto/tls wants.
func (s *Server) certificate() *tls.Certificate {
	if s.Certificate != nil {
		if c := s.Certificate(); c != nil {
			return c
		}
	}
	return &tls.Certificate{}
}

// Address is the address it listens on.
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
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // for requests under way
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
