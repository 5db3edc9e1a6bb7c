package store_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
)

// What discovery does not act on is told when it is written, stands in mesh.problems as long as it
// is there, and is not refused: others may read it.
func TestUnsupportedFieldsAreReported(t *testing.T) {
	t.Parallel()
	db, warnings := warned(t, pgtest.New(t))
	db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('strict_references', 'on')")
	db.create("XBackend", "default", "t", `{"type": "ExternalHostname", "externalHostname": {"hostname": "a.example.com"}, "port": {"port": 80}}`)
	told := warnings()
	require.Len(t, told, 1)
	require.Equal(t, "XBackend default/t: pgmesh's discovery does not act on it: this kind is not read yet", told[0].Message)
	require.Equal(t, []string{"warning unsupported XBackend default/t "}, db.found(""))
	db.Exec(`UPDATE mesh.resources SET spec = '{"type": "ExternalHostname", "externalHostname": {"hostname": "b.example.com"}, "port": {"port": 80}}'`)
	require.Empty(t, warnings(), "it was so before")
	db.Exec("DELETE FROM mesh.resources")
	require.Empty(t, db.found(""))
}

// What is accepted as by Istio, and does not do what it seems to, is told: by the programs and the
// database alike.
func TestMisleadingResourcesAreProblems(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for _, c := range []struct {
		kind, spec string
		want       []string // the paths
	}{
		{"AuthorizationPolicy", `{"rules": [{"from": [], "to": [{"operation": {"methods": ["GET"]}}]}, {"to": []}]}`, []string{"spec.rules[0].from", "spec.rules[1].to"}},
		{"AuthorizationPolicy", `{"rules": [{"from": [{"source": {"namespaces": ["a"]}}]}, {}]}`, nil},
		{"RequestAuthentication", `{"jwtRules": [{"issuer": "a", "fromHeaders": [{"name": "x-a"}, {"name": "x-a: b"}]}]}`, []string{"spec.jwtRules[0].fromHeaders[1].name"}},
		{"WorkloadGroup", `{"template": {"address": "10.0.0.1"}}`, []string{"spec.template.address"}},
		{"WorkloadGroup", `{"template": {"address": ""}}`, nil},
		{
			"MeshConfig", `{"tlsDefaults": {"cipherSuites": ["ALL", "TLS_AES_128_GCM_SHA256"], "ecdhCurves": ["P-256", "P-224"]}, "meshMTLS": {"cipherSuites": ["[AES128-SHA|NOPE]"]}}`,
			[]string{"spec.meshMTLS.cipherSuites", "spec.tlsDefaults.cipherSuites", "spec.tlsDefaults.ecdhCurves"},
		},
		{"MeshConfig", `{"tlsDefaults": {"cipherSuites": ["-AES128-SHA", "[ECDHE-RSA-AES128-GCM-SHA256|ECDHE-RSA-CHACHA20-POLY1305]"], "ecdhCurves": ["X25519MLKEM768"]}}`, nil},
	} {
		kind, err := kinds.ByName(c.kind)
		require.NoError(t, err)
		db.create(c.kind, "istio-system", "a", c.spec)
		inSQL := problemsByPath(db)
		found, err := kind.Unsupported([]byte(c.spec))
		require.NoError(t, err)
		inGo := map[string]string{}
		for _, f := range found {
			inGo[f.Path] = f.Reason
		}
		require.Equal(t, inGo, inSQL, c.spec)
		require.Equal(t, c.want, slices.Sorted(maps.Keys(inSQL)), c.spec)
		db.Exec("DELETE FROM mesh.resources")
	}
}

func problemsByPath(s session) map[string]string {
	s.T.Helper()
	rows, err := s.Conn.Query(s.T.Context(), "SELECT path, message FROM mesh.problems WHERE code = 'unsupported'")
	require.NoError(s.T, err)
	messages, path, message := map[string]string{}, "", ""
	_, err = pgx.ForEachRow(rows, []any{&path, &message}, func() error { messages[path] = message; return nil })
	require.NoError(s.T, err)
	return messages
}
