// Package issue gives machines their certificates, by Istio's istio.v1.auth.IstioCertificateService: the first to who has a join token or a JSON
// web token of an issuer that the operator trusts, and those after it to who has the one before.
//
// It signs by itself, with the authority that discovery has, also while mcp-server and Postgres are away; only join tokens are asked about there.
// Everybody who was given a certificate, or refused one, is recorded.
package issue

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	istio "istio.io/api/security/v1alpha1"

	"github.com/pgmesh/pgmesh/discovery/identity/trust"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/internal/limits"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// DefaultLifetime is that of machines' certificates.
const DefaultLifetime = 24 * time.Hour

// GroupHeader is the header of an answer that tells a machine for which WorkloadGroup its token was: by that it registers.
const GroupHeader = "pgmesh-workload-group"

// Config says what certificates are given by.
type Config struct {
	// Trust is what the mesh trusts; nil as long as nobody knows.
	Trust func() *trust.State
	// Authority is what to sign with, or why there is nothing.
	Authority func() (*authority.Authority, error)
	// Server redeems join tokens and keeps the records; nil where there is no mcp-server.
	Server identityv1.AuthorityServiceClient
	// Folder is where records are kept over a restart while mcp-server is away; "" keeps them in memory alone.
	Folder string
	// Keys are those of issuers of tokens that were fetched. It may be nil.
	Keys func() mesh.FetchedKeys
	// Lifetime is for how long a certificate is given at most, and if nobody says for how long.
	Lifetime time.Duration
	// Strangers are those that have no certificate yet.
	Strangers *limits.Strangers
	// Renewals are those of machines that have one.
	Renewals *limits.Renewals
	Log      *slog.Logger
	Metrics  prometheus.Registerer
}

// Service gives certificates.
type Service struct {
	istio.UnimplementedIstioCertificateServiceServer

	cfg     Config
	metrics *metrics
	records *records
	tokens  *webTokens
	refused rate.Sometimes // who is refused may try again and again
}

// New returns a service.
func New(cfg Config) *Service {
	if cfg.Lifetime <= 0 {
		cfg.Lifetime = DefaultLifetime
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Service{
		cfg: cfg, metrics: newMetrics(cfg.Metrics), records: newRecords(cfg.Server, cfg.Folder, cfg.Log, cfg.Metrics), tokens: newWebTokens(cfg.Keys),
		refused: rate.Sometimes{First: 20, Interval: time.Second},
	}
}

// Register adds the service to a gRPC server.
func (s *Service) Register(r grpc.ServiceRegistrar) {
	istio.RegisterIstioCertificateServiceServer(r, s)
}

// Run has records kept until the context ends.
func (s *Service) Run(ctx context.Context) error { return s.records.run(ctx) }

// Flush has those records kept that are left when nobody calls any more. It takes a moment at most.
func (s *Service) Flush() { s.records.flush() }

// CreateCertificate gives a certificate, or says why not.
func (s *Service) CreateCertificate(ctx context.Context, r *istio.IstioCertificateRequest) (*istio.IstioCertificateResponse, error) {
	begun := time.Now()
	record := newRecord(ctx, begun)
	issued, err := s.create(ctx, r, record)
	record.Took = durationpb.New(time.Since(begun))
	if why, refused := errors.AsType[*refusal.Error](err); refused {
		s.tellRefused(record, why)
		s.records.add(record)
		return nil, why
	}
	if err != nil {
		return nil, err
	}
	s.tellIssued(record)
	s.records.add(record)
	return issued, nil
}

func newRecord(ctx context.Context, at time.Time) *identityv1.Issue {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	record := &identityv1.Issue{Id: id[:], At: timestamppb.New(at)}
	if p, ok := peer.FromContext(ctx); ok {
		record.Peer = p.Addr.String()
	}
	return record
}

// create gives a certificate, and writes down what it finds out of who asks. What it refuses is a refusal.Error; a caller that calls too
// often is turned away by another, and not written down.
func (s *Service) create(ctx context.Context, r *istio.IstioCertificateRequest, record *identityv1.Issue) (*istio.IstioCertificateResponse, error) {
	c, err := s.present(ctx, record)
	if err != nil {
		return nil, err
	}
	csr, err := authority.ParseRequest([]byte(r.GetCsr()))
	if err != nil {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "%v", err)
	}
	hash := csr.KeyHash()
	record.KeyHash = hash[:]
	signer, err := s.cfg.Authority()
	if err != nil {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_UNAVAILABLE, "discovery cannot sign certificates now, try again later or at another discovery: %v", err)
	}
	who, err := c.redeem(ctx, hash)
	if err != nil {
		if who.Namespace != "" { // so that those hear of it whose token it was
			record.Identity = who.String()
		}
		return nil, err
	}
	answer, err := s.sign(signer, c.state, who, csr, s.lifetime(r, c.state, who.Namespace), record)
	if err == nil && who.group != "" {
		if err := grpc.SetHeader(ctx, metadata.Pairs(GroupHeader, who.group)); err != nil {
			s.cfg.Log.Warn("a machine was not told for which group it joins", "error", err)
		}
	}
	return answer, err
}

// sign certifies who somebody is, unless they were revoked.
func (s *Service) sign(
	signer *authority.Authority, state *trust.State, who bearer, csr *authority.CSR, lifetime time.Duration, record *identityv1.Issue,
) (*istio.IstioCertificateResponse, error) {
	record.Identity, record.Enrolment = who.String(), who.enrolment
	if text := state.Revoked(who.Workload, who.enrolment); text != "" {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_REVOKED, "%s", text)
	}
	id, err := who.ID()
	if err != nil {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "no certificate can be given for the namespace %q and the service account %q: %v",
			who.Namespace, who.ServiceAccount, err)
	}
	begun := time.Now()
	issued, err := signer.Sign(authority.Request{CSR: csr, ID: id, Enrolment: who.enrolment, Lifetime: lifetime})
	switch {
	case errors.Is(err, authority.ErrRequest):
		return nil, refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "%v", err)
	case err != nil:
		return nil, refusal.New(identityv1.Refusal_REFUSAL_UNAVAILABLE, "discovery cannot sign certificates now: %v", err)
	}
	s.metrics.signing.Observe(time.Since(begun).Seconds())
	record.Serial, record.NotAfter = hex.EncodeToString(issued.Certificate.SerialNumber.Bytes()), timestamppb.New(issued.Certificate.NotAfter)
	record.Authority = fingerprint(signer.Root())
	return &istio.IstioCertificateResponse{CertChain: chainOf(issued, state)}, nil
}

// lifetime is for how long a certificate is given: what the machine asks for, what the mesh sets for its namespace, and this discovery's own, whichever
// is least.
func (s *Service) lifetime(r *istio.IstioCertificateRequest, state *trust.State, namespace string) time.Duration {
	least := s.cfg.Lifetime
	for _, seconds := range []int64{state.Lifetime(namespace), r.GetValidityDuration()} {
		if seconds > 0 && seconds < int64(least/time.Second) {
			least = time.Duration(seconds) * time.Second
		}
	}
	return least
}
