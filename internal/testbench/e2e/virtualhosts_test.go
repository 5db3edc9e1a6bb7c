package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// told is what discovery last sent a proxy of one type.
type told struct {
	Type string
	Sent struct {
		Revision           string
		Resources, Removed int
	}
	Acked struct{ Revision string }
}

// told asks discovery what it last sent the mesh's Envoy of a type.
func (m *mesh) told(ctx context.Context, typeName string) (told, error) {
	code, text, err := fetch(ctx, "http://"+m.Discovery.HTTP()+"/debug/proxies?proxy=client."+m.namespace)
	if err != nil || code != http.StatusOK {
		return told{}, fmt.Errorf("/debug/proxies answers %d %s: %w", code, text, err)
	}
	var proxies []struct{ Types []told }
	if err := json.Unmarshal([]byte(text), &proxies); err != nil {
		return told{}, err
	}
	for _, t := range proxies[0].Types {
		if t.Type == typeName {
			return t, nil
		}
	}
	return told{}, fmt.Errorf("the proxy does not ask for %s: %s", typeName, text)
}

// hasAccepted waits until Envoy has accepted what it was sent of a type.
func (m *mesh) hasAccepted(typeName string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		now, err := m.told(ctx, typeName)
		if err == nil && now.Acked.Revision != now.Sent.Revision {
			err = fmt.Errorf("it has not accepted %+v", now)
		}
		return err
	})
}

// sends makes a change of virtual hosts, and waits until Envoy has accepted exactly this many for
// it, and no route configuration.
func (m *mesh) sends(do func(), changed, removed int) {
	m.t.Helper()
	hosts, err := m.told(m.t.Context(), "hosts")
	require.NoError(m.t, err)
	routes, err := m.told(m.t.Context(), "routes")
	require.NoError(m.t, err)
	do()
	eventually(m.t, func(ctx context.Context) error {
		now, err := m.told(ctx, "hosts")
		if err != nil {
			return err
		}
		if now.Sent.Revision == hosts.Sent.Revision || now.Acked.Revision != now.Sent.Revision {
			return fmt.Errorf("the virtual hosts are at %+v", now)
		}
		require.Equal(m.t, changed, now.Sent.Resources)
		require.Equal(m.t, removed, now.Sent.Removed)
		return nil
	})
	after, err := m.told(m.t.Context(), "routes")
	require.NoError(m.t, err)
	require.Equal(m.t, routes, after)
}

// numberedRule is a rule that puts a number into every answer.
func numberedRule(host string, number int) string {
	return virtualService(host, fmt.Sprintf(`http: [{headers: {response: {set: {%s: "%d"}}}, route: [{destination: {host: %s}}]}]`, numberHeader, number, host))
}

func TestOneRouteAmongManyIsOneVirtualHost(t *testing.T) {
	t.Parallel()
	m, v1 := newMesh(t), newBackend(t, "v1", nil)
	m.transaction(func(tx pgx.Tx) {
		for i := range 50 {
			host := fmt.Sprintf("shop-%d.mesh", i)
			m.put(tx, m.service(host, v1), numberedRule(host, 0))
		}
	})
	m.answers("shop-7.mesh", "v1")
	m.sends(func() { m.commit(numberedRule("shop-7.mesh", 1)) }, 1, 0)
	eventually(t, func(ctx context.Context) error { return m.numbered(ctx, "shop-7.mesh", numberHeader, 1) })
	m.sends(func() { m.commit(m.service("new.mesh", v1)) }, 1, 0)
	m.answers("new.mesh", "v1")
	m.sends(func() {
		m.transaction(func(tx pgx.Tx) {
			m.remove(tx, "ServiceEntry", "new")
			m.put(tx, m.service("newer.mesh", v1), numberedRule("shop-8.mesh", 2))
		})
	}, 2, 1)
	m.answers("newer.mesh", "v1")
	require.NotEqual(t, http.StatusOK, m.must(request{host: "new.mesh"}).status)
}

func TestRoutesOfALaterPortGetTheirHosts(t *testing.T) {
	t.Parallel()
	m, v1, v2 := newMesh(t), newBackend(t, "v1", nil), newBackend(t, "v2", nil)
	m.commit(m.service(reviews, v1))
	m.answers(reviews, "v1")
	first := m.port
	for i := range 3 { // the first one goes, too, and comes back
		m.port = newPort(t)
		m.commit(m.service(fmt.Sprintf("later-%d.mesh", i), v2))
		m.answers(fmt.Sprintf("later-%d.mesh", i), "v2")

		m.port = first
		m.answers(reviews, "v1")
		m.transaction(func(tx pgx.Tx) { m.remove(tx, "ServiceEntry", "reviews") })
		eventually(t, func(ctx context.Context) error {
			if a, err := m.ask(ctx, request{host: reviews}); err == nil {
				return fmt.Errorf("answered %d: the listener is there still", a.status)
			}
			return nil
		})
		m.commit(m.service(reviews, v1))
		m.answers(reviews, "v1")
	}
}

// A short name belongs to the service in its namespace, until a service declares the short name
// itself, and again when that is gone.
func TestADomainMovesBetweenHostsWithoutAFailedRequest(t *testing.T) {
	t.Parallel()
	m, v1, v2 := newMesh(t), newBackend(t, "v1", nil), newBackend(t, "v2", nil)
	m.commit(m.service("reviews."+m.namespace+".svc.cluster.local", v1), m.service("ratings.mesh", v1))
	m.answers("reviews", "v1")
	traffic := m.startTraffic("reviews", 200)
	for range 20 {
		m.sends(func() { m.commit(m.service("reviews", v2)) }, 2, 0)
		m.answers("reviews", "v2")
		m.sends(func() { m.transaction(func(tx pgx.Tx) { m.remove(tx, "ServiceEntry", "reviews") }) }, 1, 1)
		m.answers("reviews", "v1")
	}
	_, failure := traffic.end()
	require.Empty(t, failure)
}

// The virtual host for unknown hosts is one like others. Envoy never has two of them.
func TestTheHostForUnknownHostsIsExchanged(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, newBackend(t, "v1", nil)))
	m.answers(reviews, "v1")
	traffic := m.startTraffic(reviews, 100)
	for range 3 {
		m.sends(func() {
			m.commit("{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: closed}, spec: {outboundTrafficPolicy: {mode: REGISTRY_ONLY}}}")
		}, 1, 1)
		eventually(t, func(ctx context.Context) error { return m.status(ctx, "whoever.mesh", http.StatusBadGateway) })
		m.sends(func() { m.transaction(func(tx pgx.Tx) { m.remove(tx, "Sidecar", "closed") }) }, 1, 1)
	}
	_, failure := traffic.end()
	require.Empty(t, failure)
}

func TestAnEnvoyThatComesBackIsSentTheHostsThatDiffer(t *testing.T) {
	t.Parallel()
	_, database := common.get(t)
	control := newStack(t, database)
	require.NoError(t, control.Start(t.Context()))
	m, v1 := meshOn(t, control, database), newBackend(t, "v1", nil)
	m.commit(m.service(reviews, v1), numberedRule(reviews, 0), m.service("ratings.mesh", v1))
	m.answers(reviews, "v1")
	traffic := m.startTraffic(reviews, 100)
	for n := 1; n <= 3; n++ {
		m.hasAccepted("hosts") // or it would be sent them again
		control.Discovery.Kill()
		m.commit(numberedRule(reviews, n))
		require.NoError(t, control.Discovery.Start())
		eventually(t, func(ctx context.Context) error { return m.numbered(ctx, reviews, numberHeader, n) })
		hosts, err := m.told(t.Context(), "hosts")
		require.NoError(t, err)
		require.Equal(t, 1, hosts.Sent.Resources)
		routes, err := m.told(t.Context(), "routes")
		require.NoError(t, err)
		require.Zero(t, routes.Sent.Resources)
	}
	_, failure := traffic.end()
	require.Empty(t, failure)
}

func TestAPatchOfOneVirtualHost(t *testing.T) {
	t.Parallel()
	m, v1 := newMesh(t), newBackend(t, "v1", nil)
	m.commit(m.service(reviews, v1), m.service("ratings.mesh", v1))
	m.answers(reviews, "v1")
	patch := fmt.Sprintf(`
  - applyTo: VIRTUAL_HOST
    match: {context: SIDECAR_OUTBOUND, routeConfiguration: {vhost: {name: "%s:%s"}}}
    patch: {operation: MERGE, value: {response_headers_to_add: [{header: {key: x-host, value: patched}}]}}
`, reviews, m.port)
	m.sends(func() { m.commit(envoyFilter("host", patch)) }, 1, 0)
	m.header(reviews, "x-host", "patched")
	m.header("ratings.mesh", "x-host", "")
	m.commit(envoyFilter("host", `
  - applyTo: VIRTUAL_HOST
    match: {context: SIDECAR_OUTBOUND}
    patch: {operation: REMOVE}
`))
	eventually(t, func(ctx context.Context) error { return m.status(ctx, reviews, http.StatusNotFound) })
	m.sends(func() { m.transaction(func(tx pgx.Tx) { m.remove(tx, "EnvoyFilter", "host") }) }, 3, 1)
	m.answers(reviews, "v1")
}

func TestAGatewayIsSentTheHostThatChanges(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	m.port = newPort(t)
	rule := func(n int) string {
		return exposed("shop", "shop.example.com", fmt.Sprintf(`http: [{headers: {response: {set: {%s: "%d"}}}, route: [{destination: {host: shop.mesh}}]}]`, numberHeader, n))
	}
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)), m.exposing("{port: {number: "+m.port+", name: http, protocol: HTTP}, hosts: ['*.example.com']}"),
		rule(0), exposed("other", "other.example.com", "http: "+to("shop.mesh")))
	m.answers("shop.example.com", "shop")
	traffic := m.startTraffic("shop.example.com", 100)
	for n := 1; n <= 10; n++ {
		m.sends(func() { m.commit(rule(n)) }, 1, 0)
		eventually(t, func(ctx context.Context) error { return m.numbered(ctx, "shop.example.com", numberHeader, n) })
	}
	_, failure := traffic.end()
	require.Empty(t, failure)
}
