// Package sds serves Envoy the secrets of its machine: the certificate that says who it is, whom the mesh trusts, and
// certificates in files. So keys stay on the machine, and what is new is in force at once, without a restart.
//
// The names are Istio's: "default" is the machine's certificate with its key, "ROOTCA" whom the mesh trusts; file-cert:CERTIFICATE~KEY and
// file-root:ROOTS are files.
package sds

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"sync"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	secretv3 "github.com/envoyproxy/go-control-plane/envoy/service/secret/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/agentsecret"
	"github.com/pgmesh/pgmesh/internal/membership"
)

// Names of what the mesh itself gives.
const (
	Certificate = agentsecret.Certificate
	Roots       = agentsecret.Roots
)

// Server has the secrets, and serves them.
type Server struct {
	secretv3.UnimplementedSecretDiscoveryServiceServer

	log   *slog.Logger
	files *files
	start string // tells the versions of one start from those of another

	mu      sync.Mutex
	secrets map[string]secret
	count   int
	changed chan struct{} // closed when a secret is new
}

// secret is one in the form that it travels in.
type secret struct {
	body    *anypb.Any
	version string
}

// New returns a server that has no secrets yet.
func New(log *slog.Logger) *Server {
	var start [6]byte
	_, _ = rand.Read(start[:]) // never fails
	s := &Server{log: log, start: fmt.Sprintf("%x-", start), secrets: map[string]secret{}, changed: make(chan struct{})}
	s.files = newFiles(s.put, log)
	return s
}

// Member serves what a membership says, until the context ends.
func (s *Server) Member(ctx context.Context, m *membership.Membership) error {
	for {
		state := m.Current()
		if err := s.take(state); err != nil {
			return err
		}
		select {
		case <-state.Replaced():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Server) take(state *membership.State) error {
	key, err := state.KeyPEM()
	if err != nil {
		return err
	}
	s.put(certificate(Certificate, state.ChainPEM(), key), trusted(Roots, state.Trust))
	return nil
}

// Own serves files of the machine as its certificate and as whom the mesh trusts. All must be usable.
func (s *Server) Own(cert, key, roots string) error {
	return s.files.own(map[string]file{Certificate: {path: cert, key: key}, Roots: {path: roots}})
}

// put makes secrets the ones of their names, all at once, and tells the streams.
func (s *Server) put(made ...*tlsv3.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.count
	for _, m := range made {
		body, err := anypb.New(m)
		if err != nil {
			s.log.Error("a secret cannot be encoded", "secret", m.GetName(), "error", err)
			continue
		}
		if had, known := s.secrets[m.GetName()]; known && string(had.body.GetValue()) == string(body.GetValue()) {
			continue
		}
		s.count++
		s.secrets[m.GetName()] = secret{body, s.start + strconv.Itoa(s.count)}
	}
	if s.count > before {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// get returns those of the named secrets that there are, and what is closed when that is not true any more.
func (s *Server) get(names map[string]bool) (map[string]secret, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]secret{}
	for name := range names {
		if have, known := s.secrets[name]; known {
			found[name] = have
		}
	}
	return found, s.changed
}

// Register has Envoy served on a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	secretv3.RegisterSecretDiscoveryServiceServer(r, s)
}

// Run keeps what files say new until the context ends.
func (s *Server) Run(ctx context.Context) error { return s.files.watch(ctx) }
