package attack

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// A service of evil has endpoints on the machine of shop: shop's Envoy would call its own admin
// API, its agent, and the cloud's metadata service.
func TestATenantCannotLeadOthersToTheirOwnMachine(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	evil := m.tenant("evil", "evil")
	victim := m.member("shop/victim", "victim", "--node-ip", "10.99.0.1")
	_, admin, err := net.SplitHostPort(victim.Admin)
	require.NoError(t, err)
	entry := func(name, resolution string, addresses ...string) {
		endpoints := make([]string, len(addresses))
		for i, a := range addresses {
			endpoints[i] = fmt.Sprintf(`{"address": %q, "ports": {"http": %s}}`, a, admin)
		}
		_, err := evil.Exec(t.Context(), "INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('ServiceEntry', 'evil', $1, $2)", name, fmt.Sprintf(
			`{"hosts": ["%s.evil"], "resolution": %q, "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "endpoints": [%s]}`, name, resolution, strings.Join(endpoints, ", ")))
		require.NoError(t, err)
	}
	entry("addresses", "STATIC", "10.98.0.1", "127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "169.254.169.254", "fe80::1", "fd00:ec2::254", "fd20:ce::254", "64:ff9b::a9fe:a9fe", "100.100.100.200")
	entry("names", "DNS", "localhost", "x.localhost", "LOCALHOST", "metadata.google.internal", "127.0.0.1")
	_, err = evil.Exec(t.Context(), `INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('ServiceEntry', 'evil', 'socket',
		'{"hosts": ["socket.evil"], "resolution": "STATIC", "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "endpoints": [{"address": "unix:///run/agent.sock"}]}')`)
	require.NoError(t, err)
	entry("last", "STATIC", "10.98.0.2")
	poll.Eventually(t, func(context.Context) error {
		if page := m.page(victim.Admin, "/clusters"); !strings.Contains(page, "10.98.0.2:"+admin) {
			return fmt.Errorf("the last entry of evil has not come: %s", page)
		}
		return nil
	})
	var led []string
	for line := range strings.Lines(m.page(victim.Admin, "/clusters")) {
		if strings.Contains(line, ".evil::") && strings.Contains(line, "::cx_active::") {
			led = append(led, strings.Split(line, "::")[1])
		}
	}
	require.ElementsMatch(t, []string{"10.98.0.1:" + admin, "10.98.0.2:" + admin}, led)
	b.change()
}
