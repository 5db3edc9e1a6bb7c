package envoy_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/envoy"
)

// spec returns an EnvoyFilter's spec with these patches.
func spec(t *testing.T, patches string) *networking.EnvoyFilter {
	t.Helper()
	documents, err := kinds.Parse("test.yaml", []byte(`
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: test}
spec:
  configPatches:
`+patches))
	require.NoError(t, err)
	return documents[0].Resource.Spec.Message().(*networking.EnvoyFilter)
}

func TestMistakesAreReportedAtTheirPath(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		patch        string
		level        envoy.Level
		path         string
		reason, hint string
	}{
		"an unknown field": {
			`{applyTo: CLUSTER, patch: {operation: MERGE, value: {conect_timeout: 1s}}}`,
			envoy.Unknown, "value.conect_timeout", `unknown field "conect_timeout"`, `did you mean "connect_timeout"?`,
		},
		"an unknown field of a filter's configuration": {
			`{applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: lua, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, inline_cod: ""}}}}`,
			envoy.Unknown, "value.typed_config.inline_cod", `unknown field "inline_cod"`, `did you mean "inline_code"?`,
		},
		"an unknown field in a struct that names its type": {
			`{applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: lua, typed_config: {"@type": type.googleapis.com/udpa.type.v1.TypedStruct, type_url: type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua, value: {inline_cod: ""}}}}}`,
			envoy.Unknown, "value.typed_config.value.inline_cod", `unknown field "inline_cod"`, `did you mean "inline_code"?`,
		},
		"a type that Envoy lacks": {
			`{applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: a, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lu}}}}`,
			envoy.Invalid, `value.typed_config["@type"]`, `a stock Envoy has no "envoy.extensions.filters.http.lua.v3.Lu"`, `did you mean "envoy.extensions.filters.http.lua.v3.Lua"?`,
		},
		"no type": {
			`{applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: a, typed_config: {inline_code: ""}}}}`,
			envoy.Invalid, `value.typed_config["@type"]`, "required field is missing", "type.googleapis.com/ and the name of Envoy's message",
		},
		"the configuration of something else": {
			`{applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: a, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}}}`,
			envoy.Invalid, "value", "envoy.extensions.filters.network.echo.v3.Echo is not the configuration of a filter that can be here", "",
		},
		"a filter of connections that come in, for those that go out": {
			`{applyTo: CLUSTER, patch: {operation: ADD, value: {name: a, filters: [{name: a, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.echo.v3.Echo}}]}}}`,
			envoy.Invalid, "value.filters[0]", "envoy.extensions.filters.network.echo.v3.Echo is not the configuration of a filter that can be here", "",
		},
		"a filter without configuration": {
			`{applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: envoy.lua}}}`,
			envoy.Invalid, "value", "the filter has no typed_config", "by the type of their configuration",
		},
		"a duration": {
			`{applyTo: CLUSTER, patch: {operation: MERGE, value: {connectTimeout: soon}}}`,
			envoy.Invalid, "value.connectTimeout", `invalid google.protobuf.Duration value "soon"`, "",
		},
		"an enum": {
			`{applyTo: CLUSTER, patch: {operation: MERGE, value: {lb_policy: LEAST_REQUESTS}}}`,
			envoy.Unknown, "value.lb_policy", "LEAST_REQUESTS is none of the values", `did you mean "LEAST_REQUEST"?`,
		},
		"a value where an object belongs": {
			`{applyTo: CLUSTER, patch: {operation: MERGE, value: {circuit_breakers: {thresholds: [5]}}}}`,
			envoy.Invalid, "value.circuit_breakers.thresholds[0]", "expected an object", "",
		},
		"two of a oneof": {
			`{applyTo: HTTP_ROUTE, patch: {operation: MERGE, value: {route: {cluster: a, cluster_header: b}}}}`,
			envoy.Invalid, "value.route", "only one of cluster, cluster_header may be set", "",
		},
		"a rule of Envoy's": {
			`{applyTo: CLUSTER, patch: {operation: ADD, value: {name: a, connect_timeout: 0s}}}`,
			envoy.Invalid, "value.connect_timeout", "value must be greater than 0s", "",
		},
		"a rule, deep in what is packed": {
			`{applyTo: HTTP_FILTER, patch: {operation: INSERT_FIRST, value: {name: a, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit, stat_prefix: x, token_bucket: {max_tokens: 1}}}}}`,
			envoy.Invalid, "value.typed_config.token_bucket.fill_interval", "value is required", "",
		},
		"a part that is missing": {
			`{applyTo: CLUSTER, patch: {operation: ADD, value: {connect_timeout: 1s}}}`,
			envoy.Invalid, "value.name", "value length must be at least 1 runes", "",
		},
		"a regular expression": {
			`{applyTo: HTTP_ROUTE, patch: {operation: MERGE, value: {match: {safe_regex: {regex: "("}}}}}`,
			envoy.Invalid, "value.match.safe_regex", `"(" is not a regular expression`, "",
		},
		"a chain that does not end": {
			`{applyTo: FILTER_CHAIN, patch: {operation: ADD, value: {filters: [{name: a, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.sni_cluster.v3.SniCluster}}]}}}`,
			envoy.Invalid, "value.filters[0]", "the filter a cannot be the last one", "ends with one that answers",
		},
		"what cannot be changed": {
			`{applyTo: BOOTSTRAP, patch: {operation: MERGE, value: {}}}`,
			envoy.Idle, "applyTo", "cannot be changed while it runs", "agent",
		},
		"an operation that does nothing": {
			`{applyTo: ROUTE_CONFIGURATION, patch: {operation: REMOVE}}`,
			envoy.Idle, "patch.operation", "REMOVE does nothing to a ROUTE_CONFIGURATION", "operations that do: MERGE, MERGE_AND_REPLACE_LIST",
		},
		"a filter to remove without its name": {
			`{applyTo: NETWORK_FILTER, patch: {operation: REMOVE}}`,
			envoy.Idle, "match.listener.filterChain.filter.name", "without the name of a filter nothing is changed", "name the filter",
		},
		"HTTP filters of another filter": {
			`{applyTo: HTTP_FILTER, match: {listener: {filterChain: {filter: {name: envoy.filters.network.tcp_proxy}}}}, patch: {operation: INSERT_FIRST, value: {name: a}}}`,
			envoy.Idle, "match.listener.filterChain.filter.name", "no filter but envoy.filters.network.http_connection_manager", "",
		},
		"waypoints": {
			`{applyTo: CLUSTER, match: {context: WAYPOINT, waypoint: {}}, patch: {operation: REMOVE}}`,
			envoy.Idle, "match.context", "there are no waypoints", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := envoy.Read(spec(t, "  - "+test.patch))
			require.Len(t, problems, 1, "%v", problems)
			require.Equal(t, test.level, problems[0].Level)
			path := "spec.configPatches[0]."
			if test.level != envoy.Idle {
				path += "patch."
			}
			require.Equal(t, path+test.path, problems[0].Path)
			require.Contains(t, problems[0].Reason, test.reason)
			require.Contains(t, problems[0].Hint, test.hint)
		})
	}
}

func TestMergedValueMayLackRequiredFields(t *testing.T) {
	t.Parallel()
	patches, problems := envoy.Read(spec(t, `
  - {applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: 3s}}}
  - applyTo: NETWORK_FILTER
    match: {listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager}}}}
    patch:
      operation: MERGE
      value: {typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager, xff_num_trusted_hops: 2}}
  - {applyTo: HTTP_ROUTE, patch: {operation: MERGE, value: {route: {timeout: 3s}}}}
`))
	require.Empty(t, problems)
	require.Len(t, patches, 3)
}

func TestInvalidPatchKeepsTheOthers(t *testing.T) {
	t.Parallel()
	patches, problems := envoy.Read(spec(t, `
  - {applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: soon}}}
  - {applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: 3s}}}
`))
	require.Len(t, problems, 1)
	require.Len(t, patches, 1)
	require.Equal(t, 1, patches[0].Index)
}

func TestUnknownFieldIsSkipped(t *testing.T) {
	t.Parallel()
	patches, problems := envoy.Read(spec(t, `
  - {applyTo: CLUSTER, patch: {operation: MERGE, value: {connect_timeout: 3s, of_tomorrow: 1}}}
`))
	require.Len(t, problems, 1)
	require.Len(t, patches, 1)
	require.Equal(t, `connect_timeout:{seconds:3}`, text(patches[0].Value))
}

func TestPatchesForProxies(t *testing.T) {
	t.Parallel()
	patches, problems := envoy.Read(spec(t, `
  - applyTo: CLUSTER
    match: {proxy: {proxyVersion: '^1\.3[01]', metadata: {ZONE: a}}}
    patch: {operation: REMOVE}
`))
	require.Empty(t, problems)
	require.True(t, patches[0].For("1.31.2", map[string]string{"ZONE": "a"}))
	require.False(t, patches[0].For("1.29.0", map[string]string{"ZONE": "a"}))
	require.False(t, patches[0].For("", map[string]string{"ZONE": "a"}), "a proxy that does not tell its version")
	require.False(t, patches[0].For("1.31.2", map[string]string{"ZONE": "b"}))
	require.False(t, patches[0].For("1.31.2", nil))
}

func TestFiltersAreFoundByOldNames(t *testing.T) {
	t.Parallel()
	require.True(t, envoy.SameFilter("envoy.filters.http.router", "envoy.filters.http.router"))
	require.True(t, envoy.SameFilter("envoy.router", "envoy.filters.http.router"))
	require.False(t, envoy.SameFilter("envoy.router", "envoy.filters.http.lua"))
	require.False(t, envoy.SameFilter("envoy.anything", ""))
}

// The examples in the documentation must be valid as they stand.
func TestDocumentedExamplesAreValid(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/envoyfilter.md")
	require.NoError(t, err)
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	require.NotEmpty(t, examples)
	for _, example := range examples {
		documents, err := kinds.Parser{Examine: envoy.Examine}.Parse("docs/envoyfilter.md", example[1])
		require.NoError(t, err)
		_, problems := envoy.Read(documents[0].Resource.Spec.Message().(*networking.EnvoyFilter))
		require.Empty(t, problems)
	}
}

func TestInvalidPatchIsReportedAtItsLine(t *testing.T) {
	t.Parallel()
	_, err := kinds.Parser{DefaultNamespace: "shop", Examine: envoy.Examine}.Parse("test.yaml", []byte(`apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: test}
spec:
  configPatches:
  - applyTo: CLUSTER
    patch:
      operation: MERGE
      value:
        conect_timeout: 1s
`))
	require.EqualError(t, err, `test.yaml: document 1, line 10: EnvoyFilter shop/test: spec.configPatches[0].patch.value.conect_timeout: unknown field "conect_timeout" (did you mean "connect_timeout"?)`)
}
