package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// webAuthorizer decides over HTTP: requests with the token "good" may pass.
type webAuthorizer struct {
	*backend

	body atomic.Pointer[string] // that it was told last
}

func newWebAuthorizer(t testing.TB) *webAuthorizer {
	t.Helper()
	a := &webAuthorizer{}
	a.backend = newBackend(t, "auth", func(w http.ResponseWriter, r *http.Request, _ int) bool {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return false
		}
		text := string(body)
		a.body.Store(&text)
		w.Header().Set("X-User", "by http")
		w.Header().Set("X-Plan", "gold")
		w.Header().Set("Content-Type", "text/x-decision")
		if r.Header.Get("X-Token") != "good" {
			w.Header().Set("Www-Authenticate", "Token")
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, "no good token")
		}
		return true
	})
	return a
}

// grpcService is a service for gRPC.
func (m *mesh) grpcService(host string, a *authorizer) string {
	return entry(host, "GRPC", "grpc", m.port, []string{endpoint("grpc", "grpc", a.port)})
}

// externalAuth is a filter that has a service decide, in YAML.
func externalAuth(protocol, host, port, more string) string {
	return "{type: ExternalAuth, externalAuth: {protocol: " + protocol + ", backendRef: " + toHost(host, port) + more + "}}"
}

// good are headers of a request that may pass.
func good(more ...string) http.Header {
	h := http.Header{"X-Token": {"good"}}
	for i := 0; i < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

func TestServicesDecideAboutRequestsOfARoute(t *testing.T) {
	t.Parallel()
	m := newAPIGateway(t)
	services, port := m.port, newPort(t)
	web, overGRPC, shop := newWebAuthorizer(t), newAuthorizer(t), newBackend(t, "shop", nil)
	rule := func(path string, filters ...string) string {
		return "{matches: [{path: {value: " + path + "}}], filters: [" + strings.Join(filters, ", ") + "], backendRefs: [" + toHost("shop.mesh", services) + "]}"
	}
	told := ", http: {path: /check, allowedHeaders: [x-token, X-Tenant]}"
	m.commit(
		m.service("shop.mesh", shop), m.service("auth.mesh", web.backend), m.grpcService("calls.mesh", overGRPC), m.service("away.mesh", &backend{name: "away", port: newPort(t)}),
		listening("{name: http, port: "+port+", protocol: HTTP}"),
		httpRoute("shop", "{name: edge}", "shop.example.com",
			rule("/http", "{type: RequestHeaderModifier, requestHeaderModifier: {set: [{name: x-by, value: edge}]}}",
				"{type: CORS, cors: {allowOrigins: ['https://shop.example.com'], allowMethods: [GET]}}",
				externalAuth("HTTP", "auth.mesh", services, told+", forwardBody: {maxSize: 10}")),
			rule("/one", externalAuth("HTTP", "auth.mesh", services, ", http: {allowedHeaders: [x-token], allowedResponseHeaders: [x-plan]}")),
			rule("/grpc", externalAuth("GRPC", "calls.mesh", services, ", grpc: {}")),
			rule("/few", externalAuth("GRPC", "calls.mesh", services, ", grpc: {allowedHeaders: [x-tenant]}")),
			rule("/both", externalAuth("GRPC", "calls.mesh", services, ", grpc: {}"), externalAuth("HTTP", "auth.mesh", services, told)),
			rule("/away", externalAuth("HTTP", "away.mesh", services, ", http: {}")),
			rule("/nobody", externalAuth("HTTP", "no-auth.mesh", services, ", http: {}")),
			"{matches: [{path: {value: /redirected}}], filters: [{type: RequestRedirect, requestRedirect: {hostname: away.example.com}}, "+externalAuth("HTTP", "auth.mesh", services, told)+"]}",
			"{backendRefs: ["+toHost("shop.mesh", services)+"]}"))
	m.port = port
	m.answers("shop.example.com", "shop")
	require.Zero(t, web.asked.Load()+overGRPC.aboutRequests.Load(), "about requests that no filter is for")
	ask := func(path string, header http.Header) *answer {
		return m.must(request{host: "shop.example.com", path: path, header: header})
	}

	// Those that are refused get the service's answer, and go no further.
	before := shop.asked.Load()
	for _, path := range []string{"/http", "/one", "/grpc", "/few"} {
		a := ask(path, nil)
		require.Equal(t, http.StatusUnauthorized, a.status, path)
		require.Equal(t, "no good token", a.body, path)
	}
	require.Equal(t, "Token", ask("/http", nil).header.Get("Www-Authenticate"))
	require.Equal(t, http.StatusUnauthorized, ask("/few", good()).status, "it is told of no token")
	require.Equal(t, http.StatusUnauthorized, ask("/redirected", nil).status)
	require.Equal(t, http.StatusForbidden, ask("/away", good()).status, "it cannot be asked")
	require.Equal(t, http.StatusInternalServerError, ask("/nobody", good()).status, "there is no such service")
	require.Equal(t, before, shop.asked.Load())

	// What it is told, and what requests go on with.
	a := ask("/http/a?b=c", good("X-Tenant", "a", "X-Other", "b", "Authorization", "Basic c", "Content-Type", "text/plain"))
	require.NoError(t, a.from("shop"))
	require.Equal(t, "edge", a.seen.Header.Get("X-By"))
	require.Equal(t, "by http", a.seen.Header.Get("X-User"))
	require.Equal(t, "gold", a.seen.Header.Get("X-Plan"))
	require.Equal(t, "text/plain", a.seen.Header.Get("Content-Type"), "that of the answer is of the answer alone")
	question := web.last.Load()
	require.Equal(t, "/check/http/a?b=c", question.URI)
	require.Equal(t, "shop.example.com", question.Host)
	require.Equal(t, "a", question.Header.Get("X-Tenant"))
	require.Equal(t, "Basic c", question.Header.Get("Authorization"))
	require.Equal(t, "0", question.Header.Get("Content-Length"))
	require.Empty(t, question.Header.Get("X-Other"))
	require.Empty(t, question.Header.Get("X-By"), "headers are set after that")
	a = ask("/one", good())
	require.Equal(t, "gold", a.seen.Header.Get("X-Plan"))
	require.Empty(t, a.seen.Header.Get("X-User"))
	require.Equal(t, "by grpc", ask("/grpc", good()).seen.Header.Get("X-User"))
	require.Equal(t, http.StatusInternalServerError, ask("/both", good()).status, "a rule has one such filter")
	require.Equal(t, http.StatusFound, ask("/redirected", good()).status)

	// Bodies, if they are not too long.
	require.Equal(t, http.StatusOK, m.posts("/http", "0123456789"))
	require.Equal(t, "0123456789", *web.body.Load())
	require.Equal(t, http.StatusRequestEntityTooLarge, m.posts("/http", "0123456789a"))
	require.Equal(t, http.StatusOK, m.posts("/one", strings.Repeat("a", 100_000)))
	require.Empty(t, *web.body.Load())

	// Browsers are told what they may ask before that.
	asked := web.asked.Load()
	a = m.must(request{host: "shop.example.com", path: "/http", method: http.MethodOptions, header: http.Header{
		"Origin": {"https://shop.example.com"}, "Access-Control-Request-Method": {"GET"},
	}})
	require.Equal(t, http.StatusOK, a.status)
	require.Equal(t, "https://shop.example.com", a.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, asked, web.asked.Load())

	overGRPC.stop()
	require.Equal(t, http.StatusForbidden, ask("/grpc", good()).status, "it has gone")
}

// posts sends a body with a good token, and returns the status.
func (m *mesh) posts(path, body string) int {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, "http://"+address(m.port)+path, strings.NewReader(body))
	require.NoError(m.t, err)
	req.Host = "shop.example.com"
	maps.Copy(req.Header, good())
	resp, err := m.client.Do(req)
	require.NoError(m.t, err)
	require.NoError(m.t, resp.Body.Close())
	return resp.StatusCode
}

// The example of docs/gateway-api.md.
func TestThePageHasAServiceDecide(t *testing.T) {
	t.Parallel()
	m := newAPIGateway(t)
	services, port := m.port, newPort(t)
	blocks := page(t, "../../../docs/gateway-api.md", "namespace: shop", "namespace: "+m.namespace,
		"web.shop.mesh, port: 80", "web.mesh, port: "+services, "auth.shop.mesh, port: 80", "auth.mesh, port: "+services)["yaml"]
	m.commit(m.service("web.mesh", newBackend(t, "web", nil)), m.service("auth.mesh", newWebAuthorizer(t).backend),
		listening("{name: http, port: "+port+", protocol: HTTP}"), blockWith(t, blocks, "type: ExternalAuth"))
	m.port = port
	eventually(t, func(ctx context.Context) error { return m.status(ctx, "orders.example.com", http.StatusUnauthorized) })
	a := m.must(request{host: "orders.example.com", header: good()})
	require.NoError(t, a.from("web"))
	require.Equal(t, "by http", a.seen.Header.Get("X-User"))
	require.Empty(t, a.seen.Header.Get("X-Plan"))
}

func TestSidecarsHaveServicesDecideAboutRequests(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	web := newWebAuthorizer(t)
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)), m.service("auth.mesh", web.backend),
		httpRoute("shop", "{group: networking.istio.io, kind: ServiceEntry, name: shop}", "shop.mesh",
			"{filters: ["+externalAuth("HTTP", "auth.mesh", m.port, ", http: {allowedHeaders: [x-token]}")+"], backendRefs: ["+toHost("shop.mesh", m.port)+"]}"))
	eventually(t, func(ctx context.Context) error { return m.status(ctx, "shop.mesh", http.StatusUnauthorized) })
	a := m.must(request{host: "shop.mesh", header: good()})
	require.NoError(t, a.from("shop"))
	require.Equal(t, "by http", a.seen.Header.Get("X-User"))
}

// keptConnection is a connection of a client that keeps it.
type keptConnection struct {
	net.Conn

	answers *bufio.Reader
}

func (m *mesh) keepConnection() *keptConnection {
	m.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(m.t.Context(), "tcp", address(m.port))
	require.NoError(m.t, err)
	m.t.Cleanup(func() { conn.Close() })
	return &keptConnection{conn, bufio.NewReader(conn)}
}

// ask returns the status of the answer; 0 if Envoy has closed the connection.
func (c *keptConnection) ask(host string) (status int, err error) {
	if _, err := fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
		return 0, nil // closed
	}
	resp, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return 0, nil // closed
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// A connection that is there when the first filter comes has no place for it, and gets the new routes.
func TestNothingPassesUnauthorizedOnAnOldConnection(t *testing.T) {
	t.Parallel()
	m := newAPIGateway(t)
	services, port := m.port, newPort(t)
	web, shop := newWebAuthorizer(t), newBackend(t, "shop", nil)
	route := func(filters string) string {
		return httpRoute("shop", "{name: edge}", "shop.example.com", "{"+filters+"backendRefs: ["+toHost("shop.mesh", services)+"]}")
	}
	m.commit(m.service("shop.mesh", shop), m.service("auth.mesh", web.backend), listening("{name: http, port: "+port+", protocol: HTTP}"), route(""))
	m.port = port
	m.answers("shop.example.com", "shop")
	kept := m.keepConnection()
	status, err := kept.ask("shop.example.com")
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)

	m.commit(route("filters: [" + externalAuth("HTTP", "auth.mesh", services, ", http: {allowedHeaders: [x-token]}") + "], "))
	eventually(t, func(ctx context.Context) error {
		m.client.CloseIdleConnections()
		return m.status(ctx, "shop.example.com", http.StatusUnauthorized)
	})
	passed := shop.asked.Load()
	for range 50 {
		if status, err = kept.ask("shop.example.com"); status == 0 {
			break
		}
		require.NoError(t, err)
		require.Equal(t, http.StatusServiceUnavailable, status)
	}
	require.Equal(t, passed, shop.asked.Load())

	// A new connection is asked about, and one that was marked goes on when nobody is to be asked any more.
	m.client.CloseIdleConnections()
	require.NoError(t, m.must(request{host: "shop.example.com", header: good()}).from("shop"))
	marked := m.keepConnection()
	status, err = marked.ask("shop.example.com")
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, status)
	m.commit(route(""))
	eventually(t, func(ctx context.Context) error {
		m.client.CloseIdleConnections()
		return m.status(ctx, "shop.example.com", http.StatusOK)
	})
	status, err = marked.ask("shop.example.com")
	require.NoError(t, err)
	require.Contains(t, []int{0, http.StatusOK}, status)
}
