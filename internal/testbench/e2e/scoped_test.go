package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
)

// manyHosts are rules for so many exact hosts that a gateway's routes are sent host by host, all to
// one service.
func manyHosts(service string) string {
	rules := make([]string, push.ScopedFrom)
	for i := range rules {
		rules[i] = numberedAt(fmt.Sprintf("many-%d", i), fmt.Sprintf("many-%d.example.com", i), service, 9)
	}
	return strings.Join(rules, "\n---\n")
}

// numberedAt is a rule of the gateway that puts a number into every answer.
func numberedAt(name, host, service string, number int) string {
	return exposed(name, host, fmt.Sprintf(`http: [{headers: {response: {set: {%s: "%d"}}}, route: [{destination: {host: %s}}]}]`, numberHeader, number, service))
}

// plain is a server of HTTP for all hosts.
func plain(port string) string {
	return "{port: {number: " + port + ", name: http-" + port + ", protocol: HTTP}, hosts: ['*']}"
}

// sendsScopes makes a change of routes, and waits until Envoy has accepted exactly this many parts
// of them for it.
func (m *mesh) sendsScopes(do func(), changed, removed int) {
	m.t.Helper()
	before, err := m.told(m.t.Context(), "scopes")
	require.NoError(m.t, err)
	do()
	eventually(m.t, func(ctx context.Context) error {
		now, err := m.told(ctx, "scopes")
		if err != nil {
			return err
		}
		if now.Sent.Revision == before.Sent.Revision || now.Acked.Revision != now.Sent.Revision {
			return fmt.Errorf("the scoped routes are at %+v", now)
		}
		require.Equal(m.t, changed, now.Sent.Resources)
		require.Equal(m.t, removed, now.Sent.Removed)
		return nil
	})
}

func TestAGatewayWithManyHostsIsSentTheOneThatChanges(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	m.port = newPort(t)
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)), m.service("other.mesh", newBackend(t, "other", nil)), m.exposing(plain(m.port)),
		manyHosts("other.mesh"), numberedAt("shop", "shop.example.com", "shop.mesh", 0))
	m.answers("shop.example.com", "shop")
	traffic := m.startTraffic("shop.example.com", 100)
	for n := 1; n <= 10; n++ {
		m.sendsScopes(func() { m.commit(numberedAt("shop", "shop.example.com", "shop.mesh", n)) }, 1, 0)
		eventually(t, func(ctx context.Context) error { return m.numbered(ctx, "shop.example.com", numberHeader, n) })
	}
	m.sendsScopes(func() { m.commit(numberedAt("new", "new.example.com", "shop.mesh", 7)) }, 1, 0)
	eventually(t, func(ctx context.Context) error { return m.numbered(ctx, "new.example.com", numberHeader, 7) })
	m.transaction(func(tx pgx.Tx) { m.remove(tx, "VirtualService", "new") })
	eventually(t, func(ctx context.Context) error { return m.status(ctx, "new.example.com", http.StatusNotFound) })
	_, failure := traffic.end()
	require.Empty(t, failure)
}

// Routes that are sent host by host mean the same as before: ports and case are ignored; the
// narrower host wins; a host without a route for the path answers "not found"; and nobody sees how
// it is done.
func TestAGatewaysHostsMeanTheSameHoweverManyThereAre(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	first, second := newPort(t), newPort(t)
	hosts := func(service, more string) []string {
		return []string{
			numberedAt("exact", "Exact.example.com", service, 1),
			numberedAt("suffix", "'*.example.com'", service, 2),
			numberedAt("narrow", "'*.narrow.example.com'", service, 3),
			exposed("path", "path.example.com", "http: [{match: [{uri: {prefix: /only}}], route: [{destination: {host: "+service+"}}]}]"),
			numberedAt("address", "'fd00::7'", service, 4),
			more,
		}
	}
	requireAll := func(port string) {
		m.port = port
		for host, number := range map[string]string{
			"exact.example.com": "1", "EXACT.example.COM": "1", "exact.example.com:8080": "1", "Exact.Example.com:80": "1",
			"any.example.com": "2", "ANY.example.com:8080": "2", "x.exact.example.com": "2", "x.narrow.example.com": "3", "X.Y.Narrow.example.com": "3",
			"narrow.example.com": "2", "[fd00::7]": "4", "[FD00::7]:8080": "4", "example.com": "", "nobody": "", "exact.example.com.": "",
		} {
			a := m.must(request{host: host, header: http.Header{"X-Pgmesh-Scope": {"http." + first + "/exact.example.com"}}})
			if number == "" {
				require.Equal(t, http.StatusNotFound, a.status, host)
				continue
			}
			require.NoError(t, a.from("shop"), host)
			require.Equal(t, number, a.header.Get(numberHeader), host)
			require.Equal(t, host, a.seen.Host, "the backend sees the host as the client wrote it")
		}
		require.NoError(t, m.must(request{host: "path.example.com", path: "/only"}).from("shop"))
		require.NoError(t, m.must(request{host: "PATH.example.com:1", path: "/only"}).from("shop"))
		for _, host := range []string{"path.example.com", "PATH.example.com"} {
			require.Equal(t, http.StatusNotFound, m.must(request{host: host, path: "/other"}).status, "the host is known, and has no such path")
		}
	}
	both := m.exposing(plain(first), plain(second))
	m.commit(append(hosts("shop.mesh", both), m.service("shop.mesh", newBackend(t, "shop", nil)))...)
	m.port = first
	m.answers("exact.example.com", "shop")
	requireAll(first)
	m.commit(manyHosts("shop.mesh"))
	eventually(t, func(ctx context.Context) error { // listeners may answer for the new hosts before they find them by scopes
		scopes, err := m.told(ctx, "scopes")
		if err == nil && (scopes.Sent.Resources == 0 || scopes.Acked.Revision != scopes.Sent.Revision) {
			err = fmt.Errorf("the scopes are at %+v", scopes)
		}
		return err
	})
	for _, port := range []string{first, second} {
		m.port = port
		eventually(t, func(ctx context.Context) error { return m.numbered(ctx, "many-1.example.com", numberHeader, 9) })
		requireAll(port)
	}
	seen := m.must(request{host: "exact.example.com"}).seen
	require.Empty(t, seen.Header.Get("X-Pgmesh-Scope"))
}

// From one rule more on, the listener finds its routes in another way, and back. Open connections
// keep the way that they had.
func TestNoRequestFailsWhenAGatewayComesToHaveManyHosts(t *testing.T) {
	t.Parallel()
	control, database := common.get(t)
	m := meshWithoutEnvoy(t, control, database)
	m.startAgent("--role", "gateway", "--labels", "edge="+m.namespace, "--listener-drain-time", "2s")
	first, second := newPort(t), newPort(t)
	m.port = first
	other := strings.ReplaceAll(strings.ReplaceAll(manyHosts("shop.mesh"), "gateways: [edge]", "gateways: [always]"), "name: many-", "name: always-")
	always := strings.ReplaceAll(m.exposing(plain(second)), "{name: edge}", "{name: always}")
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)), m.exposing(plain(first)), always, other, manyHosts("shop.mesh"),
		numberedAt("shop", "shop.example.com", "shop.mesh", 0), numberedAt("wild", "'*.wild.example.com'", "shop.mesh", 0))
	m.answers("shop.example.com", "shop")
	var all []*traffic
	for _, host := range []string{"shop.example.com", "SHOP.example.com:80", "x.wild.example.com"} {
		all = append(all, m.startTraffic(host, 100))
	}
	few := make([]string, push.ScopedFrom-10)
	for i := range few {
		few[i] = "many-" + strconv.Itoa(i)
	}
	for n := 1; n <= 6; n += 2 {
		// So few that they are virtual hosts again.
		m.transaction(func(tx pgx.Tx) {
			m.remove(tx, "VirtualService", few...)
			m.put(tx, numberedAt("shop", "shop.example.com", "shop.mesh", n))
		})
		eventually(t, func(ctx context.Context) error { return m.numbered(ctx, "shop.example.com", numberHeader, n) })
		eventually(t, func(ctx context.Context) error { return m.status(ctx, "many-3.example.com", http.StatusNotFound) })
		m.commit(manyHosts("shop.mesh"), numberedAt("shop", "shop.example.com", "shop.mesh", n+1))
		eventually(t, func(ctx context.Context) error { return m.numbered(ctx, "shop.example.com", numberHeader, n+1) })
		m.answers("many-3.example.com", "shop")
	}
	for _, traffic := range all {
		_, failure := traffic.end()
		require.Empty(t, failure)
	}
}
