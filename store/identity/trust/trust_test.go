package trust_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/trust"
	"github.com/pgmesh/pgmesh/store/notifications"
)

const publicKeys = `{"keys": [{"kty": "EC", "kid": "a", "crv": "P-256", "x": "AA", "y": "AA"}]}`

func cloud() trust.JoinIssuer {
	return trust.JoinIssuer{
		Name: "cloud", Issuer: "https://cloud.example", Audiences: []string{"pgmesh"}, JWKSURI: "https://cloud.example/keys",
		Claims: map[string]string{"project.id": "shop-1"}, Namespace: "shop", ServiceAccount: "cart",
	}
}

func TestTrustIsThatOfTheMeshConfigAndTheTables(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	now, err := s.Trust(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), now.ReadAt, time.Minute)
	now.ReadAt = time.Time{}
	require.Equal(t, trust.Trust{Lifetimes: map[string]int64{}, TrustDomain: "cluster.local", Aliases: []string{}, Roots: []trust.Authority{}, Federated: []trust.Federated{}, Revoked: []trust.Revocation{}, Issuers: []trust.JoinIssuer{}}, now)

	db.Exec(`INSERT INTO mesh.mesh_configs (namespace, name, spec) VALUES ('istio-system', 'istio', '{"trustDomain": "mesh.example", "trustDomainAliases": ["old.example", "older.example"]}')`)
	roots := certtest.NewAuthority(t).PEM
	require.NoError(t, s.TrustFederated(t.Context(), "partner.example", certtest.NewAuthority(t).PEM, "grace"))
	require.NoError(t, s.TrustFederated(t.Context(), "partner.example", roots, "ada"))
	require.NoError(t, s.PutJoinIssuer(t.Context(), cloud(), "ada"))
	_, err = s.RevokeIdentity(t.Context(), "shop", "cart", "leaked", "ada")
	require.NoError(t, err)
	_, err = s.RevokeIdentity(t.Context(), "shop", "other", "", "ada")
	require.NoError(t, err)
	_, err = s.RestoreIdentity(t.Context(), "shop", "other", "ada")
	require.NoError(t, err)

	db.Exec("SET TIME ZONE 'America/New_York'")
	now, err = s.Trust(t.Context())
	require.NoError(t, err)
	require.Equal(t, "mesh.example", now.TrustDomain)
	require.Equal(t, []string{"old.example", "older.example"}, now.Aliases)
	require.Len(t, now.Federated, 1)
	f := now.Federated[0]
	require.Equal(t, []string{"partner.example", string(roots), "ada"}, []string{f.TrustDomain, string(f.Roots), f.Author})
	require.WithinDuration(t, time.Now().Add(24*time.Hour), f.NotAfter, time.Minute)
	require.Len(t, now.Revoked, 1)
	require.Equal(t, []string{"shop", "ns/shop/sa/cart", "", "leaked", "ada"}, []string{now.Revoked[0].Namespace, now.Revoked[0].Identity, now.Revoked[0].Enrolment, now.Revoked[0].Reason, now.Revoked[0].By})
	require.Len(t, now.Issuers, 1)
	require.WithinDuration(t, time.Now(), now.Issuers[0].Updated, time.Minute)
	now.Issuers[0].Updated, now.Issuers[0].Author = time.Time{}, ""
	require.Equal(t, cloud(), now.Issuers[0])

	for _, remove := range []func() (bool, error){
		func() (bool, error) { return s.DistrustFederated(t.Context(), "partner.example", "ada") },
		func() (bool, error) { return s.RemoveJoinIssuer(t.Context(), "cloud", "ada") },
	} {
		was, err := remove()
		require.NoError(t, err)
		require.True(t, was)
		was, err = remove()
		require.NoError(t, err)
		require.False(t, was)
	}
}

func TestAnInvalidMeshConfigLeavesATrustDomain(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	storetest.Connect(t, url).Exec(`ALTER TABLE mesh.resources DISABLE TRIGGER USER;
		INSERT INTO mesh.resources (kind, api_group, namespace, name, spec) VALUES ('MeshConfig', 'core', 'istio-system', 'istio', '{"trustDomain": "", "trustDomainAliases": {"a": [1, "b"]}}')`)
	now, err := s.Trust(t.Context())
	require.NoError(t, err)
	require.Equal(t, "cluster.local", now.TrustDomain)
	require.Empty(t, now.Aliases)
}

func TestChangesOfTheTrustWakeServers(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	database, db := storetest.OpenURL(t, url), storetest.Connect(t, url)
	s := trust.New(database)
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan string, 100), make(chan error, 1)
	go func() { ended <- notifications.Awaken(ctx, database, time.Hour, func(table string) { heard <- table }) }()
	require.True(t, trust.Concerns(<-heard), "all tables at first")
	require.False(t, trust.Concerns("tokens"))
	for _, c := range []struct {
		table string
		do    func() error
	}{
		{"authority_keys", func() error {
			_, err := s.FirstAuthority(ctx, certtest.NewAuthority(t).PEM, sealed, "x")
			return err
		}},
		{"revocations", func() error { _, err := s.RevokeIdentity(ctx, "shop", "cart", "", "x"); return err }},
		{"revocations", func() error { _, err := s.RestoreIdentity(ctx, "shop", "cart", "x"); return err }},
		{"federated_trust", func() error { return s.TrustFederated(ctx, "partner.example", certtest.NewAuthority(t).PEM, "x") }},
		{"join_issuers", func() error { return s.PutJoinIssuer(ctx, cloud(), "x") }},
		{"mesh_configs", func() error {
			db.Put("x", "a") // which is none of their business
			db.Exec(`INSERT INTO mesh.mesh_configs (namespace, name, spec) VALUES ('istio-system', 'istio', '{"trustDomain": "mesh.example"}')`)
			return nil
		}},
		{"mesh_configs", func() error { db.Exec("DELETE FROM mesh.mesh_configs"); return nil }},
	} {
		require.NoError(t, c.do())
		require.Equal(t, c.table, <-heard)
		require.True(t, trust.Concerns(c.table))
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestInvalidFederatedTrustIsRefused(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	storetest.Connect(t, url).Exec(`INSERT INTO mesh.mesh_configs (namespace, name, spec) VALUES ('istio-system', 'istio', '{"trustDomain": "mesh.example", "trustDomainAliases": ["old.example"]}')`)
	a := certtest.NewAuthority(t)
	leaf := a.Issue(nil)
	for _, c := range []struct{ domain, roots, says string }{
		{"spiffe://x", string(a.PEM), `'spiffe://x' is not a trust domain`},
		{"", string(a.PEM), `'' is not a trust domain`},
		{"mesh.example", string(a.PEM), "mesh.example is a trust domain of this mesh itself"},
		{"old.example", string(a.PEM), "old.example is a trust domain of this mesh itself"},
		{"x", "", "the roots of x have no certificate"},
		{"x", string(leaf.Cert), "the roots of x have a certificate that is none of an authority, number 1"},
		{"x", string(a.PEM) + string(leaf.Key), "the roots of x have a private key among them"},
	} {
		err := s.TrustFederated(t.Context(), c.domain, []byte(c.roots), "ada")
		_, invalid := errors.AsType[*store.InvalidError](err)
		require.True(t, invalid, "%s: %v", c.says, err)
		require.ErrorContains(t, err, c.says)
	}
}

func TestInvalidIssuersAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	inline := func(keys string) func(*trust.JoinIssuer) {
		return func(i *trust.JoinIssuer) { i.JWKS, i.JWKSURI = keys, "" }
	}
	for says, change := range map[string]func(*trust.JoinIssuer){
		`'Cloud' is not a name for an issuer`:                 func(i *trust.JoinIssuer) { i.Name = "Cloud" },
		`the issuer is empty or has blanks`:                   func(i *trust.JoinIssuer) { i.Issuer = "" },
		`there is no audience`:                                func(i *trust.JoinIssuer) { i.Audiences = nil },
		`there is no audience, or an empty one`:               func(i *trust.JoinIssuer) { i.Audiences = []string{"a", ""} },
		`there are neither jwks nor jwks_uri, and the issuer`: func(i *trust.JoinIssuer) { i.JWKSURI, i.Issuer = "", "cloud" },
		`there are both jwks and jwks_uri (write`:             func(i *trust.JoinIssuer) { i.JWKS = publicKeys },
		`jwks_uri is not where keys can be fetched safely`:    func(i *trust.JoinIssuer) { i.JWKSURI = "http://cloud.example/keys" },
		`jwks_uri is not where keys can be fetched safely (`:  func(i *trust.JoinIssuer) { i.JWKSURI = "https://user:pw@cloud.example/keys" },
		`issuer "cloud": jwks is not JSON`:                    inline("keys"),
		`issuer "cloud": jwks is no document with keys`:       inline(`{"keys": []}`),
		`jwks is no document with keys (write {"keys": [{"`:   inline(`[]`),
		`jwks has a key that is no object`:                    inline(`{"keys": [1]}`),
		`jwks has a key that is not public (write the public`: inline(`{"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}`),
		`jwks has a key that is not public`:                   inline(`{"keys": [{"kty": "EC", "d": "c2VjcmV0"}]}`),
		`the claims are no object of strings`:                 func(i *trust.JoinIssuer) { i.Claims = map[string]string{"": "a"} },
		`'Shop' is not a valid namespace`:                     func(i *trust.JoinIssuer) { i.Namespace = "Shop" },
		`'' is not a valid service account`:                   func(i *trust.JoinIssuer) { i.ServiceAccount = "" },
		`'a/b' is not the name of a WorkloadGroup`:            func(i *trust.JoinIssuer) { i.WorkloadGroup = "a/b" },
	} {
		issuer := cloud()
		change(&issuer)
		err := s.PutJoinIssuer(t.Context(), issuer, "ada")
		_, invalid := errors.AsType[*store.InvalidError](err)
		require.True(t, invalid, "%s: %v", says, err)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "c2VjcmV0")
	}
	issuer := cloud()
	inline(publicKeys)(&issuer)
	issuer.Claims = nil
	require.NoError(t, s.PutJoinIssuer(t.Context(), issuer, "ada"))
	issuer.JWKS = ""
	require.NoError(t, s.PutJoinIssuer(t.Context(), issuer, "ada"), "it says by itself where its keys are")
}

func TestWhoMayDecideWhomTheMeshTrusts(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	tenant, server := y.Role("tenant"), y.Role("server")
	y.Grant(tenant, "*", "write")
	y.Owner.Exec("SELECT mesh.grant_server('" + server + "')")
	s := openURL(t, y.Login(server))
	require.NoError(t, s.TrustFederated(t.Context(), "partner.example", certtest.NewAuthority(t).PEM, "ada"))
	require.NoError(t, s.PutJoinIssuer(t.Context(), cloud(), "ada"))
	now, err := s.Trust(t.Context())
	require.NoError(t, err)
	require.Len(t, now.Federated, 1)
	require.Len(t, now.Issuers, 1)
	for _, sql := range []string{
		"SELECT * FROM mesh.federated_trust", "SELECT * FROM mesh.join_issuers", "DELETE FROM mesh.join_issuers", "SELECT mesh.trust_federated('x', '')",
		"SELECT mesh.distrust_federated('x')", "SELECT mesh.remove_join_issuer('x')", "SELECT mesh.put_join_issuer('x', 'x', '{x}', NULL, 'https://x', '{}', 'x', 'x', '')",
	} {
		require.Equal(t, "42501", y.As(tenant).Refused(sql).Code, sql)
	}
	y.Owner.Exec("UPDATE mesh.join_issuers SET namespace = 'other'")
	require.Equal(t, "other", storetest.Value[string](y.Owner, "SELECT namespace FROM mesh.join_issuers"))
	require.Equal(t, "cluster.local", storetest.Value[string](y.As(tenant), "SELECT mesh.trust_domain()"))
}
