package e2e

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRequestsAreMatched(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "unmatched")...), virtualService(reviews, `
http:
- {match: [{uri: {exact: /exact}}], directResponse: {status: 200, body: {string: exact path}}}
- {match: [{uri: {prefix: /prefix/}}], directResponse: {status: 200, body: {string: path prefix}}}
- {match: [{uri: {regex: "/item/[0-9]+"}}], directResponse: {status: 200, body: {string: path regex}}}
- {match: [{uri: {exact: /lower}, ignoreUriCase: true}], directResponse: {status: 200, body: {string: any case}}}
- {match: [{headers: {user: {exact: jason}}}], directResponse: {status: 200, body: {string: exact header}}}
- {match: [{headers: {user: {prefix: test-}}}], directResponse: {status: 200, body: {string: header prefix}}}
- {match: [{headers: {agent: {regex: ".*Mobile.*"}}}], directResponse: {status: 200, body: {string: header regex}}}
- {match: [{headers: {debug: {}}}], directResponse: {status: 200, body: {string: header presence}}}
- {match: [{uri: {prefix: /public}, withoutHeaders: {token: {}}}], directResponse: {status: 200, body: {string: no header}}}
- {match: [{method: {exact: DELETE}}], directResponse: {status: 200, body: {string: method}}}
- {match: [{queryParams: {version: {exact: "2"}}}], directResponse: {status: 200, body: {string: exact query}}}
- {match: [{queryParams: {page: {regex: "[0-9]+"}}}], directResponse: {status: 200, body: {string: query regex}}}
- match:
  - {uri: {prefix: /both}, headers: {a: {exact: "1"}, b: {exact: "2"}}}
  - {uri: {exact: /or}}
  directResponse: {status: 200, body: {string: all of one}}
- {match: [{uri: {prefix: /exact}}], directResponse: {status: 200, body: {string: a later rule}}}
- {route: [{destination: {host: reviews.mesh}}]}
`))
	m.listening()

	get := func(path string, header ...string) request {
		r := request{host: reviews, path: path, header: http.Header{}}
		for i := 0; i < len(header); i += 2 {
			r.header.Set(header[i], header[i+1])
		}
		return r
	}
	for _, want := range []struct {
		rule string
		of   request
	}{
		{"exact path", get("/exact")},
		{"exact path", get("/exact?query=1")},
		{"a later rule", get("/exactly")},
		{"path prefix", get("/prefix/deep")},
		{"unmatched", get("/prefix")},
		{"path regex", get("/item/42")},
		{"unmatched", get("/item/42/parts")},
		{"any case", get("/LoWeR")},
		{"exact header", get("/", "user", "jason")},
		{"exact path", get("/exact", "user", "jason")}, // both match: the first does
		{"header prefix", get("/", "user", "test-1")},
		{"unmatched", get("/", "user", "jane")},
		{"header regex", get("/", "agent", "a Mobile one")},
		{"header presence", get("/", "debug", "any")},
		{"no header", get("/public")},
		{"unmatched", get("/public", "token", "secret")},
		{"method", request{host: reviews, method: http.MethodDelete}},
		{"exact query", get("/?version=2")},
		{"unmatched", get("/?version=22")},
		{"query regex", get("/?page=3")},
		{"unmatched", get("/?page=last")},
		{"all of one", get("/both", "a", "1", "b", "2")},
		{"unmatched", get("/both", "a", "1")},
		{"all of one", get("/or")},
	} {
		a := m.must(want.of)
		rule := a.body
		if a.seen.Backend != "" {
			rule = a.seen.Backend
		}
		require.Equal(t, want.rule, rule, "%+v", want.of)
		require.Equal(t, http.StatusOK, a.status)
	}
}

func TestARequestWithoutAMatchIsNotFound(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), virtualService(reviews, `
http: [{match: [{uri: {prefix: /api}}], route: [{destination: {host: reviews.mesh}}]}]
`))
	m.listening()

	require.NoError(t, m.must(request{host: reviews, path: "/api/x"}).from("v1"))
	require.Equal(t, http.StatusNotFound, m.must(request{host: reviews, path: "/"}).status)
}

// Without redirection, Envoy cannot know where a client meant to go, so even a mesh that lets
// unknown hosts pass refuses them.
func TestUnknownHostsAreRefused(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...))
	m.listening()
	require.Equal(t, http.StatusServiceUnavailable, m.must(request{host: "nobody.mesh"}).status)

	setMode := func(mode string) {
		_, err := m.db.Exec(context.WithoutCancel(t.Context()), `UPDATE mesh.resources
			SET spec = spec || jsonb_build_object('outboundTrafficPolicy', jsonb_build_object('mode', $1::text)) WHERE kind = 'MeshConfig'`, mode)
		require.NoError(t, err)
	}
	setMode("REGISTRY_ONLY")
	t.Cleanup(func() { setMode("ALLOW_ANY") })

	eventually(t, func(ctx context.Context) error { return m.status(ctx, "nobody.mesh", http.StatusBadGateway) })
	require.NoError(t, m.must(request{host: reviews}).from("v1"))
}
