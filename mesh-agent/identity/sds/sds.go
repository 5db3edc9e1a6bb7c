// Package sds serves secrets to Envoy: the machine's certificate, the mesh's trust bundle, and
// certificates in files. So keys never leave the machine, and a renewed secret takes effect without
// a restart.
//
// The names are Istio's: "default" is the machine's certificate with its key and "ROOTCA" the trust
// bundle; file-cert:CERTIFICATE~KEY and file-root:ROOTS are files.
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

	"github.com/pgmesh/pgmesh/identity/agentsecret"
	"github.com/pgmesh/pgmesh/identity/membership"
)

// The names of the mesh's own secrets.
const (
	Certificate = agentsecret.Certificate
	Roots       = agentsecret.Roots
)

// Server holds the secrets and serves them.
type Server struct {
	secretv3.UnimplementedSecretDiscoveryServiceServer

	log           *slog.Logger
	files         *files
	versionPrefix string // makes versions unique across restarts

	mu          sync.Mutex
	secrets     map[string]secret
	lastVersion int
	changed     chan struct{} // closed and replaced when a secret changes
}

// secret is an encoded secret.
type secret struct {
	body    *anypb.Any
	version string
}

// New returns a server without secrets.
func New(log *slog.Logger) *Server {
	var start [6]byte
	_, _ = rand.Read(start[:]) // never fails
	s := &Server{log: log, versionPrefix: fmt.Sprintf("%x-", start), secrets: map[string]secret{}, changed: make(chan struct{})}
	s.files = newFiles(s.put, log)
	return s
}

// Member serves the secrets of a membership until the context ends.
func (s *Server) Member(ctx context.Context, m *membership.Membership) error {
	for {
		state := m.Current()
		if err := s.setMember(state); err != nil {
			return err
		}
		select {
		case <-state.Replaced():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *Server) setMember(state *membership.State) error {
	key, err := state.KeyPEM()
	if err != nil {
		return err
	}
	s.put(certificate(Certificate, state.ChainPEM(), key), trustBundle(Roots, state.Trust))
	return nil
}

// ServeFiles serves files as the machine's certificate and the trust bundle. All must be usable.
func (s *Server) ServeFiles(cert, key, roots string) error {
	return s.files.serveAs(map[string]file{Certificate: {path: cert, key: key}, Roots: {path: roots}})
}

// put sets secrets, all at once, and wakes the streams.
func (s *Server) put(made ...*tlsv3.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.lastVersion
	for _, m := range made {
		body, err := anypb.New(m)
		if err != nil {
			s.log.Error("a secret cannot be encoded", "secret", m.GetName(), "error", err)
			continue
		}
		if had, known := s.secrets[m.GetName()]; known && string(had.body.GetValue()) == string(body.GetValue()) {
			continue
		}
		s.lastVersion++
		s.secrets[m.GetName()] = secret{body, s.versionPrefix + strconv.Itoa(s.lastVersion)}
	}
	if s.lastVersion > before {
		close(s.changed)
		s.changed = make(chan struct{})
	}
}

// get returns those of the named secrets that exist, and a channel that is closed when any secret
// changes.
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

// Register registers the service on a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	secretv3.RegisterSecretDiscoveryServiceServer(r, s)
}

// Run watches files until the context ends.
func (s *Server) Run(ctx context.Context) error { return s.files.poll(ctx) }
