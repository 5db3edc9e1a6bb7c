package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store/defaultdeny"
)

// changes are what mesh.set_default_deny tells of.
func (s session) setDefaultDeny(enabled bool) []string {
	s.T.Helper()
	return collect[string](s, "SELECT concat_ws(' ', operation, kind, namespace || '/' || name) FROM mesh.set_default_deny($1) ORDER BY kind", enabled)
}

// denies is the row of mesh.default_deny.
func (s session) denies() string {
	s.T.Helper()
	return value[string](s, "SELECT d::text FROM mesh.default_deny d")
}

func TestDefaultDenyIsOneSwitch(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db := connect(t, url)
	require.Equal(t, "(f,,PERMISSIVE,)", db.denies())
	require.Equal(t, []string{"create AuthorizationPolicy istio-system/default-deny", "create PeerAuthentication istio-system/default"}, db.setDefaultDeny(true))
	require.Equal(t, "(t,default-deny,STRICT,default)", db.denies())
	require.Equal(t, "default deny on", value[string](db, "SELECT message FROM mesh.revisions ORDER BY revision DESC LIMIT 1"))
	require.Empty(t, db.setDefaultDeny(true), "it is on")
	require.Equal(t, []string{"delete AuthorizationPolicy istio-system/default-deny"}, db.setDefaultDeny(false))
	require.Equal(t, "(f,,STRICT,default)", db.denies(), "plaintext is not let in by it")
}

func TestDefaultDenyKnowsWhatIsThere(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db := connect(t, url)
	db.Exec(`INSERT INTO mesh.mesh_configs (namespace, name, root_namespace) VALUES ('istio-system', 'mesh', 'root')`)
	db.create("AuthorizationPolicy", "istio-system", "nobody", `{}`)
	db.create("AuthorizationPolicy", "root", "of-one", `{"selector": {"matchLabels": {"app": "x"}}}`)
	db.create("AuthorizationPolicy", "root", "members", `{"rules": [{"from": [{"source": {"principals": ["*"]}}]}]}`)
	db.Exec(`INSERT INTO mesh.authorization_policies (namespace, name, spec, annotations) VALUES ('root', 'tried', '{}', '{"istio.io/dry-run": "true"}')`)
	require.Equal(t, "(f,,PERMISSIVE,)", db.denies(), "none of these denies the whole mesh")

	db.create("AuthorizationPolicy", "root", "nobody", `{"action": "ALLOW", "rules": []}`)
	db.create("PeerAuthentication", "root", "ours", `{"mtls": {"mode": "DISABLE"}, "selector": {}}`)
	require.Equal(t, "(t,nobody,DISABLE,ours)", db.denies())
	require.Equal(t, []string{"update PeerAuthentication root/ours"}, db.setDefaultDeny(true))
	require.Equal(t, "(t,nobody,STRICT,ours)", db.denies())
	require.Equal(t, []string{"delete AuthorizationPolicy root/nobody"}, db.setDefaultDeny(false))

	db.create("AuthorizationPolicy", "root", "default-deny", `{"action": "DENY", "rules": [{"to": [{"operation": {"paths": ["/secret"]}}]}]}`)
	refused := db.Refused("SELECT mesh.set_default_deny(true)")
	require.Equal(t, "AuthorizationPolicy root/default-deny is there already, and is about something else", refused.Message)
}

func TestDefaultDenyListsItsExceptions(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.setDefaultDeny(true)
	db.create("AuthorizationPolicy", "a", "members", `{"rules": [{"from": [{"source": {"principals": ["*"]}}]}, {"when": [{"key": "source.ip", "values": ["10.0.0.0/8"]}]}]}`)
	db.create("AuthorizationPolicy", "a", "public", `{"rules": [{"from": [{"source": {"principals": ["*"]}}]}, {"to": [{"operation": {"paths": ["/public/*"]}}]}]}`)
	db.create("AuthorizationPolicy", "b", "all", `{"rules": [{}]}`)
	db.create("AuthorizationPolicy", "b", "denial", `{"action": "DENY", "rules": [{}]}`)
	db.create("PeerAuthentication", "b", "ports", `{"selector": {"matchLabels": {"app": "x"}}, "mtls": {"mode": "STRICT"}, "portLevelMtls": {"8080": {"mode": "PERMISSIVE"}}}`)
	db.create("PeerAuthentication", "c", "plain", `{"mtls": {"mode": "PERMISSIVE"}}`)
	db.create("PeerAuthentication", "d", "strict", `{"mtls": {"mode": "STRICT"}}`)
	d, err := defaultdeny.New(s).Read(t.Context())
	require.NoError(t, err)
	policy, _ := kinds.Lookup("security.istio.io", "AuthorizationPolicy")
	peer, _ := kinds.Lookup("security.istio.io", "PeerAuthentication")
	require.Equal(t, defaultdeny.State{
		Enabled: true, Policy: &kinds.Key{Kind: policy, Namespace: "istio-system", Name: "default-deny"},
		MutualTLS: "STRICT", PeerAuthentication: &kinds.Key{Kind: peer, Namespace: "istio-system", Name: "default"},
		Exceptions: []defaultdeny.Exception{
			{Key: kinds.Key{Kind: policy, Namespace: "a", Name: "public"}, Reason: "its rule 1 allows some requests to everybody"},
			{Key: kinds.Key{Kind: policy, Namespace: "b", Name: "all"}, Reason: "its rule 0 allows everything to everybody"},
			{Key: kinds.Key{Kind: peer, Namespace: "b", Name: "ports"}, Reason: "it takes plaintext on some ports"},
			{Key: kinds.Key{Kind: peer, Namespace: "c", Name: "plain"}, Reason: "it takes plaintext"},
		},
	}, d)
}

func TestTenantsDoNotSwitchDefaultDeny(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	tenant := y.tenant("tenant", [2]string{"a", "write"})
	refused := tenant.Refused("SELECT mesh.set_default_deny(true)")
	require.Contains(t, refused.Message, `may not write to the root namespace "istio-system", whose policies hold for the whole mesh`)
	y.owner.setDefaultDeny(true)
	require.Equal(t, "(t,,STRICT,)", tenant.denies(), "that it is on holds for everybody")
	tenant.Refused("SELECT mesh.set_default_deny(false)")
	y.grant(value[string](tenant, "SELECT current_user::text"), "istio-system", "write")
	require.Equal(t, []string{"delete AuthorizationPolicy istio-system/default-deny"}, tenant.setDefaultDeny(false))
	require.Equal(t, "(f,,STRICT,default)", tenant.denies())
}
