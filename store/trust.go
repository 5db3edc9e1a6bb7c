package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
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
	// Lifetimes are the configured lifetimes of machines' certificates, in seconds by namespace; "" is
	// the mesh's.
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

// JoinIssuer is a rule about an issuer of JSON web tokens by which machines may join, and about their
// identity.
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

// trustTables are the names that Awaken passes on when the trust may have changed. The MeshConfig has the
// trust domain.
var trustTables = []string{"", "authority_keys", "federated_trust", "join_issuers", "mesh_configs", "revocations", "trust_names"}

// ConcernsTrust reports whether a table that Awaken names may have changed the Trust.
func ConcernsTrust(table string) bool { return slices.Contains(trustTables, table) }

// Trust reads what the mesh trusts.
func (s *Store) Trust(ctx context.Context) (Trust, error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
	defer cancel()
	var t Trust
	var domains []string
	var roots, federated, revoked, issuers []byte
	// One statement, so that everything is of one moment.
	err := s.trust.QueryRow(ctx, `SELECT now(), mesh.trust_domains(),
		(SELECT coalesce(json_agg(json_build_object('ID', id, 'State', state, 'Fingerprint', fingerprint, 'Chain', encode(convert_to(chain, 'UTF8'), 'base64'),
			'NotBefore', not_before, 'NotAfter', not_after, 'Created', created_at, 'By', created_by, 'Activated', activated_at, 'Replaced', replaced_at) ORDER BY array_position('{active,next,previous}', state), id DESC), '[]')
			FROM mesh.authorities WHERE state <> 'retired'),
		(SELECT coalesce(json_agg(json_build_object('TrustDomain', trust_domain, 'Roots', encode(convert_to(roots, 'UTF8'), 'base64'), 'NotAfter', not_after,
			'Author', author, 'Updated', updated_at) ORDER BY trust_domain), '[]') FROM mesh.federated_trust),
		(SELECT coalesce(json_agg(json_build_object('Namespace', namespace, 'Identity', coalesce(identity, ''), 'Enrolment', coalesce(enrolment, ''), 'Reason', reason,
			'At', revoked_at, 'By', revoked_by) ORDER BY id), '[]') FROM mesh.revocations WHERE lifted_at IS NULL),
		(SELECT coalesce(json_agg(json_build_object('Name', name, 'Issuer', issuer, 'Audiences', audiences, 'JWKS', coalesce(jwks::text, ''), 'JWKSURI', coalesce(jwks_uri, ''),
			'Claims', claims, 'Namespace', namespace, 'ServiceAccount', service_account, 'WorkloadGroup', workload_group, 'Author', author, 'Updated', updated_at)
			ORDER BY name COLLATE "C"), '[]') FROM mesh.join_issuers),
		n.lifetimes, n.own_gateways FROM mesh.trust_names n`).Scan(&t.ReadAt, &domains, &roots, &federated, &revoked, &issuers, &t.Lifetimes, &t.OwnGateways)
	if err != nil {
		return t, Explain("reading what the mesh trusts", err)
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
	return ExplainInput("trusting another mesh", InTheNameOf(ctx, s.trust, by, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT mesh.trust_federated($1, $2)", trustDomain, string(roots))
		return err
	}))
}

// DistrustFederated ends that trust, and reports whether there was any.
func (s *Store) DistrustFederated(ctx context.Context, trustDomain, by string) (bool, error) {
	return CallInTheNameOf(ctx, s.trust, "ending the trust in another mesh", by, "SELECT mesh.distrust_federated($1)", trustDomain)
}

// PutJoinIssuer adds a rule, or replaces the one with its name.
func (s *Store) PutJoinIssuer(ctx context.Context, i JoinIssuer, by string) error {
	if i.JWKS != "" && !json.Valid([]byte(i.JWKS)) {
		return &InvalidError{fmt.Sprintf("issuer %q: jwks is not JSON", i.Name), `write {"keys": [{"kty": "RSA", …}]}, as the issuer publishes it`}
	}
	claims := i.Claims
	if claims == nil {
		claims = map[string]string{}
	}
	return ExplainInput("trusting an issuer of tokens", InTheNameOf(ctx, s.trust, by, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT mesh.put_join_issuer($1, $2, $3, nullif($4, '')::jsonb, nullif($5, ''), $6, $7, $8, $9)",
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
	return CallInTheNameOf(ctx, s.trust, "ending the trust in an issuer of tokens", by, "SELECT mesh.remove_join_issuer($1)", name)
}
