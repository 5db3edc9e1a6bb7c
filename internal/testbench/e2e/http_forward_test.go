package e2e

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequestsAreSplitByWeight(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1", "v2", "v3")...), subsets(reviews, "v1", "v2", "v3"),
		virtualService(reviews, split(reviews, weight{"v1", 75}, weight{"v2", 25}, weight{"v3", 0})))
	m.listening()

	counts := m.spread(reviews, 400)

	require.InDelta(t, 300, counts["v1"], 60, "%v", counts) // seven standard deviations
	require.Zero(t, counts["v3"])
}

func TestRequestsAreRewritten(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), virtualService(reviews, `
http:
- match: [{uri: {prefix: /old/}}]
  rewrite: {uri: /new/, authority: ratings.internal}
  route: [{destination: {host: reviews.mesh}}]
- match: [{uri: {prefix: /users/}}]
  rewrite: {uriRegexRewrite: {match: '/users/([0-9]+)(.*)', rewrite: '/people/\1\2'}}
  route: [{destination: {host: reviews.mesh}}]
`))
	m.listening()

	a := m.must(request{host: reviews, path: "/old/page?x=1"})
	require.Equal(t, "/new/page?x=1", a.seen.URI)
	require.Equal(t, "ratings.internal", a.seen.Host)
	a = m.must(request{host: reviews, path: "/users/7/mail"})
	require.Equal(t, "/people/7/mail", a.seen.URI)
	require.Equal(t, reviews, a.seen.Host)
}

func TestRequestsAreRedirected(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), virtualService(reviews, `
http:
- match: [{uri: {prefix: /moved}}]
  redirect: {uri: /here, authority: other.example, redirectCode: 302}
- match: [{uri: {prefix: /secure}}]
  redirect: {scheme: https, port: 8443}
- redirect: {authority: elsewhere.example}
`))
	m.listening()

	a := m.must(request{host: reviews, path: "/moved"})
	require.Equal(t, http.StatusFound, a.status)
	require.Equal(t, "http://other.example/here", a.header.Get("Location"))
	a = m.must(request{host: reviews, path: "/secure"})
	require.Equal(t, "https://reviews.mesh:8443/secure", a.header.Get("Location"))
	a = m.must(request{host: reviews, path: "/other"})
	require.Equal(t, http.StatusMovedPermanently, a.status)
	require.Equal(t, "http://elsewhere.example/other", a.header.Get("Location"))
}

func TestEnvoyAnswersDirectly(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), virtualService(reviews, `
http: [{directResponse: {status: 418, body: {string: "no coffee here"}}}]
`))
	m.listening()

	a := m.must(request{host: reviews})

	require.Equal(t, http.StatusTeapot, a.status)
	require.Equal(t, "no coffee here", a.body)
}

func TestHeadersAreAddedSetAndRemoved(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), virtualService(reviews, `
http:
- headers:
    request: {add: {more: second}, set: {which: ours}, remove: [unwanted]}
    response: {add: {fresh: "yes"}, set: {backend: hidden}, remove: [secret]}
  route:
  - destination: {host: reviews.mesh}
    headers: {request: {set: {subset: v1}}}
`))
	m.listening()

	a := m.must(request{host: reviews, header: http.Header{"More": {"first"}, "Which": {"theirs"}, "Unwanted": {"x"}}})

	require.Equal(t, []string{"first", "second"}, a.seen.Header.Values("More"))
	require.Equal(t, []string{"ours"}, a.seen.Header.Values("Which"))
	require.Equal(t, "v1", a.seen.Header.Get("Subset"))
	require.Empty(t, a.seen.Header.Get("Unwanted"))
	require.Equal(t, "yes", a.header.Get("Fresh"))
	require.Equal(t, []string{"hidden"}, a.header.Values("Backend"))
	require.Empty(t, a.header.Get("Secret"))
}

func TestRequestsAreMirrored(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	list := backends(t, "v1", "mirror")
	m.commit(m.service(reviews, list...), subsets(reviews, "v1", "mirror"), virtualService(reviews, `
http:
- route: [{destination: {host: reviews.mesh, subset: v1}}]
  mirror: {host: reviews.mesh, subset: mirror}
  mirrorPercentage: {value: 100}
`))
	m.listening()

	require.NoError(t, m.must(request{host: reviews, path: "/watched"}).from("v1"))

	eventually(t, func(context.Context) error { // nobody waits for the mirror
		if copied := list[1].last.Load(); copied == nil || copied.URI != "/watched" {
			return errors.New("the mirror has not heard of the request")
		}
		return nil
	})
}
