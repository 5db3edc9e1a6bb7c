package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/identity/members"
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
	evil.Exec(entryFor("evil", "early.shop.example", ""))
	require.Equal(t, []string{"1 resources claim hosts or addresses that other namespaces own"}, y.owner.warnings("SELECT mesh.grant_hosts('shop', '*.shop.example')"))
	require.Equal(t, "evil", value[string](y.owner, "SELECT namespace FROM mesh.problems WHERE code = 'foreign-host'"))
	y.owner.Exec("SELECT mesh.grant_hosts('bank', 'pay.shop.example'), mesh.grant_hosts('', 'discovery.example')")

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
		refused := evil.Refused(sql)
		require.Equal(t, "23514", refused.Code, sql)
		require.Contains(t, refused.Message, fmt.Sprintf(`the host "%s" is not the namespace "evil"'s to claim for others`, host))
		require.NotContains(t, refused.Message, "owns it", "who may not read the namespace is not told of it")
	}
	evil.Exec(entryFor("evil", "own.shop.example", `["."]`))
	evil.Exec(entryFor("evil", "evil.example", ""))
	y.owner.Exec(entryFor("shop", "www.shop.example", ""))
	require.Empty(t, collect[string](evil, "SELECT pattern FROM mesh.host_grants"))
	require.Equal(t, "42501", evil.Refused("SELECT mesh.grant_hosts('evil', '*')").Code)
	require.Contains(t, y.owner.Refused("SELECT mesh.grant_hosts('evil', 'a b')").Message, "no pattern of hosts")
	require.Contains(t, y.owner.Refused("SELECT mesh.grant_hosts('evil', '10.0.0.0/33')").Message, "no pattern of hosts")
	require.True(t, value[bool](y.owner, "SELECT mesh.revoke_hosts('*.shop.example')"))
	evil.Exec(entryFor("evil", "www2.shop.example", ""))
}

// Addresses that services are reached at are owned as hosts are.
func TestAddressesHaveOwners(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	evil := y.tenant("evil", [2]string{"evil", "write"})
	entries := 0
	at := func(namespace, addresses, protocol, more string) string {
		entries++
		return fmt.Sprintf(`INSERT INTO mesh.service_entries (namespace, name, spec) VALUES ('%s', 'e-%d', '{"hosts": ["e%[2]d.%[1]s.example"], "addresses": %[3]s, "resolution": "NONE",
			"ports": [{"number": 3306, "name": "p", "protocol": "%[4]s"}]%[5]s}')`, namespace, entries, addresses, protocol, more)
	}
	evil.Exec(at("evil", `["10.1.2.3"]`, "TCP", ""))
	y.owner.Exec("SELECT mesh.grant_hosts('shop', '10.1.7.9/16'), mesh.grant_hosts('bank', '10.1.3.0/24'), mesh.grant_hosts('', '2001:db8::/32')")
	require.Equal(t, []string{"10.1.0.0/16", "10.1.3.0/24", "2001:db8::/32"}, collect[string](y.owner, "SELECT pattern FROM mesh.host_grants ORDER BY pattern"))
	require.Equal(t, []string{`the address "10.1.2.3" is not the namespace's to claim for others`}, collect[string](y.owner, "SELECT message FROM mesh.problems WHERE code = 'foreign-host'"))
	for address, owner := range map[string]string{"10.1.2.3": "shop", "10.1.3.3": "bank", "10.1.3.0/25": "bank", "2001:db8::1": ""} {
		require.Equal(t, owner, value[string](y.owner, "SELECT mesh.owner_of_host($1)", address))
	}
	for what, sql := range map[string]string{
		`"10.1.2.4"`:       at("evil", `["10.1.2.4"]`, "HTTP", ""),
		`"10.1.3.1"`:       at("evil", `["192.0.2.1", "10.1.3.1"]`, "TCP", `, "exportTo": ["shop"]`),
		`"10.0.0.0/8"`:     at("evil", `["10.0.0.0/8"]`, "TCP", ""),
		`"10.1.2.0/24"`:    at("evil", `["10.1.2.0/24"]`, "TLS", ""),
		`"2001:db8:1::1"`:  at("evil", `["2001:db8:1::1"]`, "TCP", `, "exportTo": ["."]`),
		`"240.240.1.2"`:    at("evil", `["240.240.1.2"]`, "TCP", ""),
		`"0.0.0.0/0"`:      at("evil", `[]`, "TCP", ""),
		`"0.0.0.0/0" is n`: at("evil", `null`, "MYSQL", ""),
	} {
		refused := evil.Refused(sql)
		require.Equal(t, "23514", refused.Code, sql)
		require.Contains(t, refused.Message, "the address "+what)
	}
	evil.Exec(at("evil", `["10.1.2.5"]`, "TCP", `, "exportTo": ["."]`))
	evil.Exec(at("evil", `["10.2.0.1"]`, "TCP", ""))
	evil.Exec(at("evil", `[]`, "HTTP", ""))
	y.tenant("shop", [2]string{"shop", "write"}).Exec(at("shop", `["10.1.2.3"]`, "TCP", ""))
	require.True(t, value[bool](y.owner, "SELECT mesh.revoke_hosts('10.1.0.0/16')"))
}

// Where nobody owns hosts, who takes requests from another namespace's service is told, and so is
// everybody who looks.
func TestCapturedHostsAreToldOf(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	evil := y.tenant("evil", [2]string{"evil", "write"})
	y.owner.Exec(entryFor("shop", "www.shop.example", ""))
	captured := `INSERT INTO mesh.virtual_services (namespace, name, hosts, export_to, http) VALUES ('evil', '%s', '{www.shop.example}', '%s', '[{"directResponse": {"status": 200}}]')`
	require.Contains(t, evil.warnings(fmt.Sprintf(captured, "all", "{*}"))[0], "whose requests this takes from others")
	require.NotContains(t, strings.Join(evil.warnings(fmt.Sprintf(captured, "own", "{.}")), " "), "takes from others")
	require.Equal(t, []string{"error evil/all"}, collect[string](y.owner, "SELECT severity || ' ' || namespace || '/' || name FROM mesh.problems WHERE code = 'captured-host'"))
}

// The names of servers are nobody's: before hosts have owners it is told who claims one, and then
// it is refused.
func TestNamesOfTheControlPlaneAreNobodys(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	evil := y.tenant("evil", [2]string{"evil", "write"})
	require.Equal(t, "42501", evil.Refused("SELECT mesh_internal.note_control_plane('evil', '{shop.example}')").Code)
	storetest.Record(t, members.New(openURL(t, y.owner.Conn.Config().ConnString())), members.Issue{
		ID: [16]byte{1}, At: time.Now(), Identity: "spiffe://mesh/pgmesh/discovery/one", NotAfter: time.Now().Add(time.Hour), Hosts: []string{"Discovery.corp.example", "localhost", "vm"},
	})
	require.Equal(t, []string{"discovery.corp.example"}, collect[string](y.owner, "SELECT host FROM mesh_internal.control_plane_names"))
	const found = "SELECT severity || ' ' || namespace || '/' || kind FROM mesh.problems WHERE code = 'control-plane-host' ORDER BY 1"
	require.Contains(t, evil.warnings(entryFor("evil", "discovery.corp.example", ""))[0], "is a name of the control plane")
	require.Equal(t, []string{"error evil/ServiceEntry"}, collect[string](y.owner, found))
	require.Equal(t, []string{"error evil/ServiceEntry"}, collect[string](evil, found))
	evil.Exec("DELETE FROM mesh.service_entries WHERE namespace = 'evil'")

	y.owner.Exec("SELECT mesh.grant_hosts('evil', '*.corp.example')")
	require.Empty(t, value[string](y.owner, "SELECT mesh.owner_of_host('discovery.corp.example')"))
	require.Contains(t, evil.Refused(entryFor("evil", "discovery.corp.example", "")).Message, `the host "discovery.corp.example" is not the namespace "evil"'s to claim`)
	evil.Exec(entryFor("evil", "other.corp.example", ""))
	y.owner.Exec("SELECT mesh.grant_hosts('evil', 'discovery.corp.example')")
	evil.Exec(entryFor("evil", "discovery.corp.example", ""))
}

// What a namespace shows to some others is not to be found by those who claim the same: they are
// told what they would be told if there were none. The others are, for they see both.
func TestClaimsDoNotFindHiddenHosts(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	evil := y.tenant("evil", [2]string{"evil", "write"})
	shop := y.tenant("shop", [2]string{"shop", "write"})
	y.owner.Exec(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES
		('ServiceEntry', 'shop', 'hidden', '{"hosts": ["hidden.example"], "exportTo": ["shop", "bank"], "resolution": "STATIC", "addresses": ["10.9.9.9"], "ports": [{"number": 80, "name": "tcp", "protocol": "TCP"}]}'),
		('VirtualService', 'shop', 'hidden', '{"hosts": ["hidden.example"], "exportTo": ["shop", "bank"], "http": [{"route": [{"destination": {"host": "hidden.example"}}]}]}')`)
	claim := func(host, address string) string {
		return fmt.Sprintf(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES
			('ServiceEntry', 'evil', 'x', '{"hosts": ["%s"], "resolution": "DNS", "addresses": ["%s"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}]}'),
			('VirtualService', 'evil', 'x', '{"hosts": ["%[1]s"], "http": [{"directResponse": {"status": 200}}]}'),
			('VirtualService', 'evil', 'y', '{"hosts": ["y.%[1]s"], "http": [{"route": [{"destination": {"host": "%[1]s", "subset": "v1"}}]}]}')`, host, address)
	}
	mine := "SELECT concat_ws(' ', severity, code, kind, name, path) FROM mesh.problems WHERE namespace = 'evil' ORDER BY 1"
	told := func(host, address string) (warned, found []string) {
		warned, found = evil.warnings(claim(host, address)), collect[string](evil, mine)
		evil.Exec("DELETE FROM mesh.service_entries WHERE name = 'x'")
		evil.Exec("DELETE FROM mesh.virtual_services WHERE namespace = 'evil'")
		return warned, found
	}
	warned, found := told("nobody.example", "10.9.9.8")
	hidden, foundHidden := told("hidden.example", "10.9.9.9")
	require.Equal(t, strings.ReplaceAll(strings.Join(warned, "\n"), "nobody", "hidden"), strings.Join(hidden, "\n"))
	require.Equal(t, found, foundHidden)

	evil.Exec(claim("hidden.example", "10.9.9.9"))
	require.Subset(t, collect[string](y.owner, mine), []string{"error host-conflict VirtualService x spec.hosts[0]", "warning duplicate-service ServiceEntry x spec.hosts[0]"})
	require.Contains(t, collect[string](shop, "SELECT concat_ws(' ', severity, code, kind, name, path) FROM mesh.problems WHERE namespace = 'shop'"),
		"warning duplicate-service ServiceEntry hidden spec.hosts[0]")
}

// warnings runs a statement in a session of its own, and returns what it is warned of.
func (s session) warnings(sql string) (said []string) {
	s.T.Helper()
	config := s.Conn.Config().Copy()
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { said = append(said, n.Message) }
	conn, err := pgx.ConnectConfig(s.T.Context(), config)
	require.NoError(s.T, err)
	defer conn.Close(s.T.Context())
	_, err = conn.Exec(s.T.Context(), sql)
	require.NoError(s.T, err, sql)
	return said
}
