package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRetriesFollowTheirConditions(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	firstAnswers := func(status int) *backend {
		return newBackend(t, "v1", func(w http.ResponseWriter, _ *http.Request, before int) bool {
			if before == 0 {
				w.WriteHeader(status)
			}
			return before == 0
		})
	}
	hanging := newBackend(t, "v1", func(_ http.ResponseWriter, r *http.Request, before int) bool {
		if before == 0 {
			<-r.Context().Done()
		}
		return before == 0
	})
	cutting := newBackend(t, "v1", func(_ http.ResponseWriter, _ *http.Request, before int) bool {
		if before == 0 {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	failing := newBackend(t, "v1", func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		w.WriteHeader(http.StatusInternalServerError)
		return true
	})
	busy, broken := firstAnswers(http.StatusTooManyRequests), firstAnswers(http.StatusInternalServerError)
	m.commit(
		m.service("busy.mesh", busy), retried("busy.mesh", "{attempts: 2, retryOn: '429,503', backoff: 1ms}"),
		m.service("broken.mesh", broken), retried("broken.mesh", "{attempts: 2, retryOn: '429,503', backoff: 1ms}"),
		m.service("hanging.mesh", hanging), retried("hanging.mesh", "{attempts: 1, retryOn: gateway-error, perTryTimeout: 100ms, backoff: 1ms}"),
		m.service("cut.mesh", cutting), retried("cut.mesh", "{attempts: 1, retryOn: reset, backoff: 1ms}"),
		m.service("elsewhere.mesh", failing, newBackend(t, "v2", nil)),
		retried("elsewhere.mesh", "{attempts: 1, retryOn: 5xx, backoff: 1ms}"))
	m.listening()

	require.NoError(t, m.must(request{host: "busy.mesh"}).from("v1"))
	require.EqualValues(t, 2, busy.asked.Load())
	require.Equal(t, http.StatusInternalServerError, m.must(request{host: "broken.mesh"}).status, "no condition has the code")
	require.EqualValues(t, 1, broken.asked.Load())
	require.NoError(t, m.must(request{host: "hanging.mesh"}).from("v1"))
	require.NoError(t, m.must(request{host: "cut.mesh"}).from("v1"))
	// Envoy draws a host at random up to six times to find one that has not failed. So one of 64
	// retries finds none, where without the condition every second would.
	again := 0
	for range 40 {
		if m.must(request{host: "elsewhere.mesh"}).from("v2") != nil {
			again++
		}
	}
	require.Less(t, again, 4, "what failed is not tried again")
}

// retried is a VirtualService that sends all requests to the host, with a retry policy.
func retried(host, policy string) string {
	return virtualService(host, fmt.Sprintf("http: [{retries: %s, route: [{destination: {host: %s}}]}]", policy, host))
}

func TestBrowsersAreToldWhoMayAsk(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	v1 := newBackend(t, "v1", nil)
	const policy = `
http:
- corsPolicy:
    allowOrigins: [{exact: "https://good.example"}, {regex: "https://[a-z]+[.]better[.]example"}]
    allowMethods: [GET, POST]
    allowHeaders: [x-token]
    exposeHeaders: [x-seen]
    maxAge: 90s
    allowCredentials: true
    UNMATCHED
  route: [{destination: {host: HOST}}]
`
	m.commit(m.service(reviews, v1), virtualService(reviews, with(policy, "UNMATCHED", "", "HOST", reviews)),
		m.service("strict.mesh", v1), virtualService("strict.mesh", with(policy, "UNMATCHED", "unmatchedPreflights: IGNORE", "HOST", "strict.mesh")))
	m.listening()
	preflight := func(host, origin string) request {
		return request{host: host, method: http.MethodOptions, header: http.Header{"Origin": {origin}, "Access-Control-Request-Method": {"POST"}}}
	}

	for _, origin := range []string{"https://good.example", "https://much.better.example"} {
		a := m.must(preflight(reviews, origin))
		require.Equal(t, http.StatusOK, a.status)
		require.Equal(t, origin, a.header.Get("Access-Control-Allow-Origin"))
		require.Equal(t, "GET,POST", a.header.Get("Access-Control-Allow-Methods"))
		require.Equal(t, "x-token", a.header.Get("Access-Control-Allow-Headers"))
		require.Equal(t, "90", a.header.Get("Access-Control-Max-Age"))
		require.Equal(t, "true", a.header.Get("Access-Control-Allow-Credentials"))
	}
	require.Zero(t, v1.asked.Load(), "Envoy answers itself")

	a := m.must(request{host: reviews, header: http.Header{"Origin": {"https://good.example"}}})
	require.NoError(t, a.from("v1"))
	require.Equal(t, "https://good.example", a.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "x-seen", a.header.Get("Access-Control-Expose-Headers"))

	require.NoError(t, m.must(preflight(reviews, "https://bad.example")).from("v1"), "the application decides")
	a = m.must(preflight("strict.mesh", "https://bad.example"))
	require.Empty(t, a.seen.Backend, "nobody is asked")
	require.Empty(t, a.header.Get("Access-Control-Allow-Origin"))
}

func TestTeamsOwnTheRoutesThatAreDelegatedToThem(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	part := func(name, body string) string {
		return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s}
spec: {http: [{match: [{uri: {prefix: /%s/list}}], directResponse: {status: 200, body: {string: %s}}}, {route: [{destination: {host: reviews.mesh}}]}]}
`, name, name, body)
	}
	m.commit(m.service(reviews, backends(t, "v1")...), virtualService(reviews, `
http:
- {match: [{uri: {prefix: /books/}}], headers: {request: {set: {team: books}}}, delegate: {name: books}}
- {match: [{uri: {prefix: /films/}}], delegate: {name: films}}
`), part("books", "all books"))
	m.listening()

	require.Equal(t, "all books", m.must(request{host: reviews, path: "/books/list"}).body)
	a := m.must(request{host: reviews, path: "/books/1"})
	require.NoError(t, a.from("v1"))
	require.Equal(t, "books", a.seen.Header.Get("Team"))
	require.Equal(t, http.StatusNotFound, m.must(request{host: reviews, path: "/films/list"}).status, "nobody has written the delegate")

	m.commit(part("films", "all films"))
	eventually(t, func(ctx context.Context) error {
		a, err := m.ask(ctx, request{host: reviews, path: "/films/list"})
		if err == nil && a.body != "all films" {
			err = fmt.Errorf("answered %d %q", a.status, a.body)
		}
		return err
	})
}

func TestHostsAreRewrittenAtBothLevels(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1", "v2")...), subsets(reviews, "v1", "v2"), virtualService(reviews, `
http:
- match: [{uri: {prefix: /route}}]
  headers: {request: {set: {":authority": route.internal}}}
  route: [{destination: {host: reviews.mesh, subset: v1}, headers: {request: {set: {Host: ignored.internal}}}}]
- match: [{uri: {prefix: /one}}]
  route: [{destination: {host: reviews.mesh, subset: v1}, headers: {request: {set: {host: one.internal}}}}]
- match: [{uri: {prefix: /each}}]
  route:
  - {destination: {host: reviews.mesh, subset: v1}, weight: 50, headers: {request: {set: {host: first.internal}}, response: {add: {which: first}}}}
  - {destination: {host: reviews.mesh, subset: v2}, weight: 50, headers: {request: {set: {host: second.internal}}, response: {add: {which: second}}}}
`))
	m.listening()

	require.Equal(t, "route.internal", m.must(request{host: reviews, path: "/route"}).seen.Host)
	require.Equal(t, "one.internal", m.must(request{host: reviews, path: "/one"}).seen.Host)
	for range 20 {
		a := m.must(request{host: reviews, path: "/each"})
		which := map[string]string{"v1": "first", "v2": "second"}[a.seen.Backend]
		require.Equal(t, []string{which + ".internal", which}, []string{a.seen.Host, a.header.Get("Which")})
	}
}

func TestRedirectsDeriveWhatTheyLeaveOut(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), virtualService(reviews, `
http:
- {match: [{uri: {prefix: /own}}], redirect: {authority: other.mesh, derivePort: FROM_REQUEST_PORT, redirectCode: 307}}
- {match: [{uri: {prefix: /usual}}], redirect: {scheme: https, derivePort: FROM_PROTOCOL_DEFAULT, redirectCode: 303}}
- {match: [{uri: {prefix: /old/}}], redirect: {prefixRewrite: /new/, redirectCode: 308}}
- {match: [{uri: {prefix: /https}}], redirect: {scheme: https, port: 443}}
`))
	m.listening()
	for path, want := range map[string]struct {
		status int
		to     string
	}{
		"/own":      {http.StatusTemporaryRedirect, "http://other.mesh:" + m.port + "/own"},
		"/usual":    {http.StatusSeeOther, "https://reviews.mesh/usual"},
		"/old/page": {http.StatusPermanentRedirect, "http://reviews.mesh/new/page"},
		"/https":    {http.StatusMovedPermanently, "https://reviews.mesh/https"},
	} {
		a := m.must(request{host: reviews, path: path})
		require.Equal(t, want.status, a.status, path)
		require.Equal(t, want.to, a.header.Get("Location"), path)
	}
}

func TestCopiesGoToEachMirrorByItsShare(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	list := backends(t, "v1", "all", "some", "none")
	m.commit(m.service(reviews, list...), subsets(reviews, "v1", "all", "some", "none"), virtualService(reviews, `
http:
- route: [{destination: {host: reviews.mesh, subset: v1}}]
  mirrors:
  - {destination: {host: reviews.mesh, subset: all}}
  - {destination: {host: reviews.mesh, subset: some}, percentage: {value: 25}}
  - {destination: {host: reviews.mesh, subset: none}, percentage: {value: 0}}
`))
	m.listening()

	const requests = 200
	m.spread(reviews, requests)

	eventually(t, func(context.Context) error { // nobody waits for mirrors
		if n := list[1].asked.Load(); n != requests {
			return fmt.Errorf("the first mirror has heard of %d requests, want %d", n, requests)
		}
		return nil
	})
	require.InDelta(t, requests/4, list[2].asked.Load(), 45) // seven standard deviations
	require.Zero(t, list[3].asked.Load())
}

func TestFaultsAreForSomeRequestsOnly(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), virtualService(reviews, `
http:
- match: [{headers: {tester: {exact: "yes"}}}]
  fault: {abort: {grpcStatus: UNAVAILABLE, percentage: {value: 100}}}
  route: [{destination: {host: reviews.mesh}}]
- fault: {abort: {httpStatus: 418, percentage: {value: 25}}}
  route: [{destination: {host: reviews.mesh}}]
`))
	m.listening()

	grpc := http.Header{"Tester": {"yes"}, "Content-Type": {"application/grpc"}}
	require.Equal(t, "14", m.must(request{host: reviews, header: grpc}).header.Get("Grpc-Status"))
	aborted := 0
	for range 200 {
		if m.must(request{host: reviews}).status == http.StatusTeapot {
			aborted++
		}
	}
	require.InDelta(t, 50, aborted, 45)
}
