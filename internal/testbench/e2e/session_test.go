package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// begun is the first answer of a session, and the header by which its client goes on.
func (m *mesh) begun(host, path, name string) (*answer, http.Header, *http.Cookie) {
	m.t.Helper()
	var first *answer
	var cookie *http.Cookie
	eventually(m.t, func(ctx context.Context) error {
		a, err := m.ask(ctx, request{host: host, path: path})
		if err != nil {
			return err
		}
		for _, c := range (&http.Response{Header: a.header}).Cookies() {
			if c.Name == name {
				first, cookie = a, c
				return nil
			}
		}
		return fmt.Errorf("answered %d with the cookies %q, and %s is not among them", a.status, a.header.Values("Set-Cookie"), name)
	})
	return first, http.Header{"Cookie": {cookie.Name + "=" + cookie.Value}}, cookie
}

// keeps checks that requests with a header are answered by one backend.
func (m *mesh) keeps(host, path string, header http.Header, backend string) {
	m.t.Helper()
	for range 20 {
		require.NoError(m.t, m.must(request{host: host, path: path, header: header}).from(backend))
	}
}

// Requests of a session go to one endpoint, for as long as that is there, and those of others to all.
func TestSessionsStayWithTheirEndpoint(t *testing.T) {
	t.Parallel()
	m := newAPIGateway(t)
	services, port, all := m.port, newPort(t), backends(t, "a", "b", "c", "d")
	session := func(said string) string {
		return httpRoute("shop", "{name: edge}", "shop.example.com", "{matches: [{path: {value: /cart}}], sessionPersistence: "+said+", backendRefs: ["+toHost("shop.mesh", services)+"]}",
			"{backendRefs: ["+toHost("shop.mesh", services)+"]}")
	}
	onPort := func(list ...*backend) string {
		m.port = services
		defer func() { m.port = port }()
		return m.service("shop.mesh", list...)
	}
	m.commit(onPort(all...), listening("{name: http, port: "+port+", protocol: HTTP}"), session("{sessionName: cart}"))
	first, header, cookie := m.begun("shop.example.com", "/cart/1", "cart")
	require.Equal(t, "/cart", cookie.Path)
	require.True(t, cookie.HttpOnly)
	require.Equal(t, http.SameSiteLaxMode, cookie.SameSite)
	require.Zero(t, cookie.MaxAge)
	require.True(t, cookie.Expires.IsZero())
	m.keeps("shop.example.com", "/cart/2", header, first.seen.Backend)
	require.Greater(t, len(m.spread("shop.example.com", 20)), 1, "another rule has no sessions")

	// Without its endpoint a session goes on with another.
	var rest []*backend
	for _, b := range all {
		if b.name != first.seen.Backend {
			rest = append(rest, b)
		}
	}
	m.commit(onPort(rest...))
	var next *answer
	eventually(t, func(ctx context.Context) (err error) {
		next, err = m.ask(ctx, request{host: "shop.example.com", path: "/cart", header: header})
		if err == nil && (next.status != http.StatusOK || next.seen.Backend == first.seen.Backend) {
			err = fmt.Errorf("answered %d by %q", next.status, next.seen.Backend)
		}
		return err
	})
	require.NotEmpty(t, next.header.Values("Set-Cookie"), "the session has another endpoint")

	m.commit(onPort(all...), session("{sessionName: kept, absoluteTimeout: 1h, cookieConfig: {lifetimeType: Permanent}}"))
	_, _, cookie = m.begun("shop.example.com", "/cart", "kept")
	require.Equal(t, 3600, cookie.MaxAge)

	m.commit(session("{sessionName: x-cart, type: Header}"))
	eventually(t, func(ctx context.Context) error {
		a, err := m.ask(ctx, request{host: "shop.example.com", path: "/cart"})
		if err != nil {
			return err
		}
		if a.header.Get("X-Cart") == "" {
			return fmt.Errorf("answered %d without the header", a.status)
		}
		first, header = a, http.Header{"X-Cart": {a.header.Get("X-Cart")}}
		return nil
	})
	m.keeps("shop.example.com", "/cart", header, first.seen.Backend)
}

// A session stays with its backend whatever the weights are, and while other backends come and go.
func TestSessionsStayWithTheirBackend(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	split := func(one, two int) string {
		return httpRoute("shop", "{group: networking.istio.io, kind: ServiceEntry, name: one}", "ignored.example.com", fmt.Sprintf(
			"{sessionPersistence: {sessionName: cart}, backendRefs: [%s, %s]}", weighted("one.mesh", m.port, one), weighted("two.mesh", m.port, two)))
	}
	m.commit(m.service("one.mesh", backends(t, "one-a", "one-b")...), m.service("two.mesh", backends(t, "two-a", "two-b")...),
		httpRoute("shop", "{group: networking.istio.io, kind: ServiceEntry, name: one}", "ignored.example.com", "{sessionPersistence: {sessionName: cart}, backendRefs: ["+toHost("one.mesh", m.port)+"]}"))
	old, header, _ := m.begun("one.mesh", "/", "cart")

	m.commit(split(0, 1))
	eventually(t, func(ctx context.Context) error {
		a, err := m.ask(ctx, request{host: "one.mesh"})
		if err == nil && a.seen.Backend[:3] != "two" {
			err = fmt.Errorf("%s answers still", a.seen.Backend)
		}
		return err
	})
	m.keeps("one.mesh", "/", header, old.seen.Backend)
	a := m.must(request{host: "one.mesh"})
	cookies := (&http.Response{Header: a.header}).Cookies()
	require.Len(t, cookies, 1)
	require.Regexp(t, "^cart-[0-9a-f]{8}$", cookies[0].Name)

	m.commit(split(1, 0))
	eventually(t, func(ctx context.Context) error {
		a, err := m.ask(ctx, request{host: "one.mesh"})
		if err == nil && a.seen.Backend[:3] != "one" {
			err = fmt.Errorf("%s answers still", a.seen.Backend)
		}
		return err
	})
	m.keeps("one.mesh", "/", http.Header{"Cookie": {cookies[0].Name + "=" + cookies[0].Value}}, a.seen.Backend)
	m.keeps("one.mesh", "/", header, old.seen.Backend)
}

// The example of the page works, and its policy says how it stands.
func TestThePageOfSessionsWorks(t *testing.T) {
	t.Parallel()
	m := newAPIGateway(t)
	services, port := m.port, newPort(t)
	blocks := page(t, "../../../docs/gateway-api.md", "namespace: shop", "namespace: "+m.namespace, "web.shop.mesh, port: 80", "web.mesh, port: "+services,
		"web.shop.mesh}", "web.mesh}", "8080", port)
	m.commit(m.service("web.mesh", backends(t, "a", "b", "c")...), blockWith(t, blocks["yaml"], "name: edge, namespace"), blockWith(t, blocks["yaml"], "sessionPersistence:"))
	m.port = port
	first, header, _ := m.begun("cart.example.com", "/", "cart")
	m.keeps("cart.example.com", "/", header, first.seen.Backend)
	first, header, _ = m.begun("shop.example.com", "/", "web")
	m.keeps("shop.example.com", "/", header, first.seen.Backend)
	eventually(t, func(ctx context.Context) error {
		var stands string
		err := m.db.QueryRow(ctx, `SELECT string_agg(concat_ws(' ', a -> 'ancestorRef' ->> 'name', c ->> 'type', c ->> 'status'), ', ')
			FROM mesh.status_of('XBackendTrafficPolicy', $1, 'web') s, jsonb_array_elements(s.status -> 'ancestors') a, jsonb_array_elements(a -> 'conditions') c`, m.namespace).Scan(&stands)
		if want := "edge Accepted True"; err == nil && stands != want {
			err = fmt.Errorf("it stands as %q, want %q", stands, want)
		}
		return err
	})
}

// weighted is a backend by its host, with a weight.
func weighted(host, port string, weight int) string {
	return fmt.Sprintf("{group: networking.istio.io, kind: Hostname, name: %s, port: %s, weight: %d}", host, port, weight)
}
