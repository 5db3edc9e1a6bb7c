package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func envoyFilter(name, patches string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: %s}
spec:
  configPatches:%s`, name, patches)
}

const luaHeader = `
  - applyTo: HTTP_FILTER
    match:
      context: SIDECAR_OUTBOUND
      listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}}}
    patch:
      operation: INSERT_BEFORE
      value:
        name: envoy.filters.http.lua
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
          default_source_code:
            inline_string: |
              function envoy_on_response(handle)
                handle:headers():add("x-lua", "was here")
              end
`

const routeHeader = `
  - applyTo: ROUTE_CONFIGURATION
    match: {context: SIDECAR_OUTBOUND}
    patch: {operation: MERGE, value: {response_headers_to_add: [{header: {key: x-route, value: patched}}]}}
`

// header waits until a host answers with a header.
func (m *mesh) header(host, name, value string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		a, err := m.ask(ctx, request{host: host})
		if err == nil && a.header.Get(name) != value {
			err = fmt.Errorf("the answer (%d) has %s %q, want %q", a.status, name, a.header.Get(name), value)
		}
		return err
	})
}

func TestPatchesPutFiltersAndHeadersIn(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), envoyFilter("lua", luaHeader), envoyFilter("route", routeHeader))
	m.header(reviews, "x-lua", "was here")
	m.header(reviews, "x-route", "patched")

	m.commit(envoyFilter("lua", routeHeader), envoyFilter("route", routeHeader))
	m.header(reviews, "x-lua", "")
}

func TestPatchesLimitRates(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), envoyFilter("limits", `
  - applyTo: HTTP_FILTER
    match: {context: SIDECAR_OUTBOUND}
    patch:
      operation: INSERT_BEFORE
      value:
        name: envoy.filters.http.local_ratelimit
        typed_config:
          "@type": type.googleapis.com/udpa.type.v1.TypedStruct
          type_url: type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
          value: {stat_prefix: limits}
  - applyTo: HTTP_ROUTE
    match: {context: SIDECAR_OUTBOUND, routeConfiguration: {vhost: {domainName: reviews.mesh, route: {action: ANY}}}}
    patch:
      operation: MERGE
      value:
        typed_per_filter_config:
          envoy.filters.http.local_ratelimit:
            "@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit
            stat_prefix: limits
            token_bucket: {max_tokens: 2, tokens_per_fill: 2, fill_interval: 3600s}
            filter_enabled: {default_value: {numerator: 100}}
            filter_enforced: {default_value: {numerator: 100}}
`))
	m.listening()
	require.Equal(t, http.StatusOK, m.must(request{host: reviews}).status)
	require.Equal(t, http.StatusOK, m.must(request{host: reviews}).status)
	require.Equal(t, http.StatusTooManyRequests, m.must(request{host: reviews}).status)
}

func TestPatchesRemoveFilters(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), virtualService(reviews, `
http:
- fault: {abort: {httpStatus: 418, percentage: {value: 100}}}
  route: [{destination: {host: reviews.mesh}}]
`))
	m.listening()
	require.Equal(t, http.StatusTeapot, m.must(request{host: reviews}).status)

	m.commit(envoyFilter("faultless", `
  - applyTo: HTTP_FILTER
    match:
      context: SIDECAR_OUTBOUND
      listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.fault}}}}
    patch: {operation: REMOVE}
`))
	m.answers(reviews, "v1")
}

func TestPatchesAddClustersAndRoutesToThem(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := backends(t, "v1", "v2")
	m.commit(m.service(reviews, b[0]), envoyFilter("detour", fmt.Sprintf(`
  - applyTo: CLUSTER
    match: {context: SIDECAR_OUTBOUND}
    patch:
      operation: ADD
      value:
        name: detour
        type: STATIC
        load_assignment:
          cluster_name: detour
          endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: 127.0.0.1, port_value: %s}}}}]}]
  - applyTo: HTTP_ROUTE
    match: {context: SIDECAR_OUTBOUND, routeConfiguration: {vhost: {domainName: reviews.mesh}}}
    patch: {operation: INSERT_FIRST, value: {match: {headers: [{name: x-detour, present_match: true}], prefix: /}, route: {cluster: detour}}}
`, b[1].port)))
	m.listening()
	require.NoError(t, m.must(request{host: reviews}).from("v1"))
	require.NoError(t, m.must(request{host: reviews, header: http.Header{"X-Detour": {"yes"}}}).from("v2"))
}

// A filter that names its configuration gets it, and each change of it.
func TestPatchesConfigureFiltersByName(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	byName := func(says string) string {
		return envoyFilter("by-name", fmt.Sprintf(`
  - applyTo: HTTP_FILTER
    match: {context: SIDECAR_OUTBOUND}
    patch:
      operation: INSERT_FIRST
      value:
        name: shared
        config_discovery:
          config_source: {ads: {}, resource_api_version: V3, initial_fetch_timeout: 0s}
          type_urls: [type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua]
  - applyTo: EXTENSION_CONFIG
    patch:
      operation: ADD
      value:
        name: shared
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua
          default_source_code: {inline_string: 'function envoy_on_response(handle) handle:headers():add("x-says", "%s") end'}
`, says))
	}
	m.commit(m.service(reviews, backends(t, "v1")...), byName("one"))
	m.header(reviews, "x-says", "one")
	m.commit(byName("two"))
	m.header(reviews, "x-says", "two")
}

// Envoy never gets what it would refuse, whatever patches make: the suite fails if it refuses
// anything. Other patches work.
func TestBrokenPatchesNeverReachEnvoy(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(m.service(reviews, backends(t, "v1")...), envoyFilter("broken", `
  - {applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: no-config}}}
  - {applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: unknown, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.absent.v3.Absent}}}}
  - {applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: network, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}}}
  - {applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: invalid, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit}}}}
  - applyTo: HTTP_FILTER
    match: {listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}}}}
    patch: {operation: REMOVE}
  - applyTo: HTTP_FILTER
    match: {listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: envoy.filters.http.router}}}}}
    patch: {operation: INSERT_AFTER, value: {name: late, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors}}}
  - {applyTo: NETWORK_FILTER, patch: {operation: INSERT_FIRST, value: {name: echo, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}}}
  - {applyTo: FILTER_CHAIN, patch: {operation: REMOVE}}
  - {applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: -1s}}}
  - {applyTo: CLUSTER, patch: {operation: ADD, value: {name: BlackHoleCluster}}}
  - {applyTo: CLUSTER, patch: {operation: ADD, value: {connect_timeout: 1s}}}
  - {applyTo: VIRTUAL_HOST, patch: {operation: ADD, value: {name: again, domains: ['*']}}}
  - {applyTo: HTTP_ROUTE, patch: {operation: INSERT_FIRST, value: {match: {safe_regex: {regex: '('}}, direct_response: {status: 204}}}}
  - {applyTo: HTTP_ROUTE, patch: {operation: INSERT_FIRST, value: {match: {prefix: /}}}}
  - {applyTo: LISTENER, patch: {operation: ADD, value: {name: empty}}}
`), envoyFilter("works", luaHeader))
	m.header(reviews, "x-lua", "was here")
	m.answers(reviews, "v1")

	metrics, err := scrape(t.Context(), m.Discovery)
	require.NoError(t, err)
	require.GreaterOrEqual(t, metrics["pgmesh_discovery_patches_not_applied"], 15.0)
	for series, n := range metrics {
		require.False(t, isRefusal(series) && n > 0, "%s %v", series, n)
	}
}
