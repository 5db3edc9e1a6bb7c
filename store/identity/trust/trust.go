package trust

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Trust is what the mesh trusts at one moment.
type Trust struct {
	ReadAt      time.Time // by the database's clock; everything committed before is included
	TrustDomain string
	Aliases     []string
	Roots       []Authority // the trusted authorities without keys, the active one first
	Federated   []Federated
	Revoked     []Revocation // oldest first
	Issuers     []JoinIssuer // sorted by name
	// Lifetimes are the configured lifetimes of machines' certificates, in seconds by namespace; ""
	// is the mesh's.
	Lifetimes map[string]int64
	// OwnGateways says that gateways serve only Gateways of their own namespace.
	OwnGateways bool
}

// Federated is another mesh that is trusted.
type Federated struct {
	TrustDomain string
	Roots       []byte    // PEM
	NotAfter    time.Time // when the last root ends
	Author      string
	Updated     time.Time
}

// JoinIssuer is a rule about an issuer of JSON web tokens by which machines may join, and about
// their identity.
type JoinIssuer struct {
	Name           string
	Issuer         string
	Audiences      []string
	JWKS           string // the key set itself, or else JWKSURI names its address
	JWKSURI        string
	Claims         map[string]string
	Namespace      string
	ServiceAccount string
	WorkloadGroup  string
	Author         string
	Updated        time.Time
}

// trustTables are the names that Awaken passes on when the trust may have changed. The MeshConfig
// has the trust domain.
var trustTables = []string{"", "authority_keys", "federated_trust", "join_issuers", "mesh_configs", "revocations", "trust_names"}

// Concerns reports whether a table that Awaken names may have changed the Trust.
func Concerns(table string) bool { return slices.Contains(trustTables, table) }

// Trust reads what the mesh trusts.
func (s *Store) Trust(ctx context.Context) (Trust, error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	var t Trust
	var domains []string
	var roots, federated, revoked, issuers []byte
	// One statement, so that everything is of one moment.
	err := s.db.TrustPool().QueryRow(ctx, sql.Trust).Scan(&t.ReadAt, &domains, &roots, &federated, &revoked, &issuers, &t.Lifetimes, &t.OwnGateways)
	if err != nil {
		return t, store.Explain("reading what the mesh trusts", err)
	}
	t.TrustDomain, t.Aliases = domains[0], domains[1:]
	for text, into := range map[*[]byte]any{&roots: &t.Roots, &federated: &t.Federated, &revoked: &t.Revoked, &issuers: &t.Issuers} {
		if err := json.Unmarshal(*text, into); err != nil {
			return t, fmt.Errorf("reading what the mesh trusts: %w", err)
		}
	}
	return t, nil
}

// TrustFederated trusts another mesh, in the name of by, and replaces its earlier roots.
func (s *Store) TrustFederated(ctx context.Context, trustDomain string, roots []byte, by string) error {
	return store.ExplainInput("trusting another mesh", store.InTheNameOf(ctx, s.db.TrustPool(), by, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql.TrustFederated, trustDomain, string(roots))
		return err
	}))
}

// DistrustFederated ends that trust, and reports whether there was any.
func (s *Store) DistrustFederated(ctx context.Context, trustDomain, by string) (bool, error) {
	return store.CallInTheNameOf(ctx, s.db.TrustPool(), "ending the trust in another mesh", by, sql.DistrustFederated, trustDomain)
}

// PutJoinIssuer adds a rule, or replaces the one with its name.
func (s *Store) PutJoinIssuer(ctx context.Context, i JoinIssuer, by string) error {
	if i.JWKS != "" && !json.Valid([]byte(i.JWKS)) {
		return &store.InvalidError{Reason: fmt.Sprintf("issuer %q: jwks is not JSON", i.Name), Advice: `write {"keys": [{"kty": "RSA", …}]}, as the issuer publishes it`}
	}
	claims := i.Claims
	if claims == nil {
		claims = map[string]string{}
	}
	return store.ExplainInput("trusting an issuer of tokens", store.InTheNameOf(ctx, s.db.TrustPool(), by, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql.PutJoinIssuer,
			i.Name, i.Issuer, orEmpty(i.Audiences), i.JWKS, i.JWKSURI, claims, i.Namespace, i.ServiceAccount, i.WorkloadGroup)
		return err
	}))
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// RemoveJoinIssuer removes a rule, and reports whether there was one.
func (s *Store) RemoveJoinIssuer(ctx context.Context, name, by string) (bool, error) {
	return store.CallInTheNameOf(ctx, s.db.TrustPool(), "ending the trust in an issuer of tokens", by, sql.RemoveJoinIssuer, name)
}
