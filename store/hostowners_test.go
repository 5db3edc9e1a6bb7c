package store_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// entryFor is a ServiceEntry for a host; exportTo is JSON, or empty.
func entryFor(namespace, host, exportTo string) string {
	more := ""
	if exportTo != "" {
		more = `, "exportTo": ` + exportTo
	}
	return fmt.Sprintf(`INSERT INTO mesh.service_entries (namespace, name, spec) VALUES ('%s', 'e-%d', '{"hosts": ["%s"], "resolution": "NONE", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]%s}')`,
		namespace, len(host)+len(exportTo), host, more)
}

// Of a host that has an owner nobody else claims anything for others, by whatever kind.
func TestHostsHaveOwners(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	evil := y.tenant("evil", [2]string{"evil", "write"})
	evil.exec(entryFor("evil", "early.shop.example", ""))
	require.Equal(t, []string{"1 resources claim hosts that other namespaces own"}, y.owner.warnings("SELECT mesh.grant_hosts('shop', '*.shop.example')"))
	require.Equal(t, "evil", value[string](y.owner, "SELECT namespace FROM mesh.problems WHERE code = 'foreign-host'"))
	y.owner.exec("SELECT mesh.grant_hosts('bank', 'pay.shop.example'), mesh.grant_hosts('', 'discovery.example')")

	rule := func(kind, spec string) string {
		return fmt.Sprintf("INSERT INTO mesh.resources (kind, api_group, namespace, name, spec) VALUES ('%s', 'networking.istio.io', 'evil', 'r', '%s')", kind, spec)
	}
	for host, sql := range map[string]string{
		"www.shop.example":  entryFor("evil", "www.shop.example", ""),
		"pay.shop.example":  entryFor("evil", "pay.shop.example", `["shop"]`),
		"*.shop.example":    entryFor("evil", "*.shop.example", ""),
		"*.example":         entryFor("evil", "*.example", `["*"]`),
		"discovery.example": entryFor("evil", "discovery.example", `["."]`),
		"a.shop.example":    rule("VirtualService", `{"hosts": ["a.shop.example"], "http": [{"directResponse": {"status": 200}}]}`),
		"b.shop.example":    rule("DestinationRule", `{"host": "b.shop.example"}`),
		"c.shop.example":    rule("Gateway", `{"selector": {"app": "gateway"}, "servers": [{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["c.shop.example"]}]}`),
		"d.shop.example":    rule("VirtualService", `{"hosts": ["d.shop.example"], "gateways": ["shop/gateway"], "http": [{"directResponse": {"status": 200}}]}`),
	} {
		refused := evil.refused(sql)
		require.Equal(t, "MS001", refused.Code, sql)
		require.Contains(t, refused.Message, fmt.Sprintf(`the host "%s" is not the namespace "evil"'s to claim for others`, host))
		require.NotContains(t, refused.Message, "owns it", "who may not read the namespace is not told of it")
	}
	evil.exec(entryFor("evil", "own.shop.example", `["."]`))
	evil.exec(entryFor("evil", "evil.example", ""))
	y.owner.exec(entryFor("shop", "www.shop.example", ""))
	require.Empty(t, collect[string](evil, "SELECT pattern FROM mesh.host_grants"))
	require.Equal(t, "42501", evil.refused("SELECT mesh.grant_hosts('evil', '*')").Code)
	require.Contains(t, y.owner.refused("SELECT mesh.grant_hosts('evil', 'a b')").Message, "no pattern of hosts")
	require.True(t, value[bool](y.owner, "SELECT mesh.revoke_hosts('*.shop.example')"))
	evil.exec(entryFor("evil", "www2.shop.example", ""))
}

// Where nobody owns hosts, who takes requests from another namespace's service is told, and so is everybody who looks.
func TestCapturedHostsAreToldOf(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	evil := y.tenant("evil", [2]string{"evil", "write"})
	y.owner.exec(entryFor("shop", "www.shop.example", ""))
	captured := `INSERT INTO mesh.virtual_services (namespace, name, hosts, export_to, http) VALUES ('evil', '%s', '{www.shop.example}', '%s', '[{"directResponse": {"status": 200}}]')`
	require.Contains(t, evil.warnings(fmt.Sprintf(captured, "all", "{*}"))[0], "whose requests this takes from others")
	require.NotContains(t, strings.Join(evil.warnings(fmt.Sprintf(captured, "own", "{.}")), " "), "takes from others")
	require.Equal(t, []string{"error evil/all"}, collect[string](y.owner, "SELECT severity || ' ' || namespace || '/' || name FROM mesh.problems WHERE code = 'captured-host'"))
}

// warnings runs a statement in a session of its own, and returns what it is warned of.
func (s session) warnings(sql string) (said []string) {
	s.t.Helper()
	config := s.conn.Config().Copy()
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { said = append(said, n.Message) }
	conn, err := pgx.ConnectConfig(s.t.Context(), config)
	require.NoError(s.t, err)
	defer conn.Close(s.t.Context())
	_, err = conn.Exec(s.t.Context(), sql)
	require.NoError(s.t, err, sql)
	return said
}
