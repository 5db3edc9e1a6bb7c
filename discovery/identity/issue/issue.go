// Package issue gives machines their certificates, over Istio's
// istio.v1.auth.IstioCertificateService. The first certificate is for a join token, or a JSON web
// token of an issuer that the operator trusts; each later one is for the one before.
//
// Discovery signs with its own authority, even while mcp-server and Postgres are away. It asks
// mcp-server only about join tokens. Every certificate and every refusal is recorded.
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

// DefaultLifetime is the lifetime of machines' certificates.
const DefaultLifetime = 24 * time.Hour

// GroupHeader is a header of the answer. It tells a machine for which WorkloadGroup its token was,
// and so as what it registers.
const GroupHeader = "pgmesh-workload-group"

// Config says how certificates are given.
type Config struct {
	// Trust returns what the mesh trusts; nil before that is known.
	Trust func() *trust.State
	// Authority returns what signs, or why there is nothing to sign with.
	Authority func() (*authority.Authority, error)
	// Server redeems join tokens and keeps the records; nil if there is no mcp-server.
	Server identityv1.AuthorityServiceClient
	// Folder keeps records over a restart while mcp-server is away; "" keeps them in memory only.
	Folder string
	// Keys returns the keys fetched from issuers of tokens. It may be nil.
	Keys func() mesh.FetchedKeys
	// Lifetime is the longest lifetime of a certificate, and its lifetime if nothing else is set.
	Lifetime time.Duration
	// Strangers limits callers without a certificate.
	Strangers *limits.Strangers
	// Renewals limits machines that have one.
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
	refused rate.Sometimes // a refused caller may try again and again
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

// Run sends records to mcp-server until the context ends.
func (s *Service) Run(ctx context.Context) error { return s.records.run(ctx) }

// Flush sends the records that are left. Call it when nobody calls the service any more. It takes a
// few seconds at most.
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

// create gives a certificate, and records what it finds out about the caller. Its refusals are of
// type refusal.Error. A caller that calls too often gets another error, and is not recorded.
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
		if who.Namespace != "" { // so that those whose token it was can see it
			record.Identity = who.String()
		}
		return nil, err
	}
	who.alias = aliasOf(r, who.Namespace)
	answer, err := s.sign(signer, c.state, who, csr, s.lifetime(r, c.state, who.Namespace), record)
	if err == nil && who.group != "" {
		if err := grpc.SetHeader(ctx, metadata.Pairs(GroupHeader, who.group)); err != nil {
			s.cfg.Log.Warn("a machine was not told for which group it joins", "error", err)
		}
	}
	return answer, err
}

// sign certifies an identity, unless it was revoked.
func (s *Service) sign(
	signer *authority.Authority, state *trust.State, who bearer, csr *authority.CSR, lifetime time.Duration, record *identityv1.Issue,
) (*istio.IstioCertificateResponse, error) {
	record.Identity, record.Enrolment = who.String(), who.enrolment
	if r := state.Revocation(who.Workload, who.enrolment); r != nil {
		return nil, refusal.NewRevoked(r, "%s", trust.Revoked(r))
	}
	id, err := who.ID()
	if err != nil {
		return nil, refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "no certificate can be given for the namespace %q and the service account %q: %v",
			who.Namespace, who.ServiceAccount, err)
	}
	begun := time.Now()
	issued, err := signer.Sign(authority.Request{CSR: csr, ID: id, Enrolment: who.enrolment, Alias: who.alias, Lifetime: lifetime})
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

// lifetime is how long a certificate is valid: the least of what the machine asks for, what the
// mesh sets for its namespace, and this discovery's own limit.
func (s *Service) lifetime(r *istio.IstioCertificateRequest, state *trust.State, namespace string) time.Duration {
	least := s.cfg.Lifetime
	for _, seconds := range []int64{state.Lifetime(namespace), r.GetValidityDuration()} {
		if seconds > 0 && seconds < int64(least/time.Second) {
			least = time.Duration(seconds) * time.Second
		}
	}
	return least
}
