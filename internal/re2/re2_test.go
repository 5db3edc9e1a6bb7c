package re2_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/router/v3" // what is in the bootstrap
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/internal/re2"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
)

// good are expressions that Envoy accepts, bad those that it refuses.
var (
	good = []string{
		"", "a", ".*", strings.Repeat("a", 8000), `[a-z]{1,500}`, `(a{100}){10}`, `\p{Greek}`, `\p{Any}`, `\pN`, `\p{^Greek}`, `(?<n>a)`, `(?P<n>a)`, `\Q\p{Foo}..\E`, `[[:word:]]`, `\z`,
		`(?s-i:a)`, `\pL{1000}`, `[\pL\pN]{1000}`, "é[ä-ü]?", `\x{ff}`, `\\x{100}`, `(?i)straße`, `/api/v[0-9]+/(users|orders)/[^/]+`,
	}
	bad = []string{
		`\p{Foo}`, `\p{Klingon}`, `\pX`, `a{1001}`, `(a{1,100}){1,11}`, `((a{100}){10}){10}`, `(((a{30}){30}){30})`, `a**`, `\Z`, `\8`, `\1`, `(?a)`, `(`, `)`, `[a`, `\x{100}`, `\x{10FFFF}`,
		`[\x{100}-\x{200}]`, `\p{LC}`, `\p{Cn}`, `\p{ASCII}`, `\p{Letter}`, `\p{greek}`, `\p{Assigned}`, strings.Repeat("(", 1001) + "a" + strings.Repeat(")", 1001),
		`(?:\pL{1000})(?:[\pL\pN]{1000})(?:[\pL\pN]{1000})(?:[\pL\pN]{1000})(?:[\pL\pN]{1000})`, strings.Repeat("a", 9000),
	}
)

func TestCheckAgreesWithEnvoy(t *testing.T) {
	t.Parallel()
	for _, expression := range good {
		require.NoError(t, re2.Check(expression), "%.80s", expression)
	}
	for _, expression := range bad {
		require.Error(t, re2.Check(expression), "%.80s", expression)
		require.Error(t, re2.Check(expression), "it is remembered")
	}
	envoytest.Validate(t, routing(t, good[1:]...))
	for _, expression := range bad[:len(bad)-1] { // the last is too long for us alone
		if !strings.HasPrefix(expression, "(((((") { // which Go counts the depth of, and Envoy the size
			require.NotEmpty(t, envoytest.Refusal(t, routing(t, expression)), "%.80s", expression)
		}
	}
}

// TestEnvoyAcceptsRandomGoodExpressions builds random expressions: Envoy must accept all that Check
// accepts.
func TestEnvoyAcceptsRandomGoodExpressions(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(18, 8))
	pieces := []string{
		"a", "é", ".", "(", ")", "(?:", "(?i)", "|", "*", "+", "?", "{2,}", "{1000}", "{3,900}", "[^a-z]", "[", "]", `\pL`, `\p{Lu}`, `\P{Han}`, `\p{^Lu}`, `\b`, `\x41`, `\x{1F600}`, `\Q*`, `\E`, "^", "$", "-", `\d`,
		`[[:alpha:]\pN]`, `(?P<n>`, `\C`, `\07`, `\p{Zyyy}`, `\p{Sc}`,
	}
	var taken []string
	for range 20000 {
		var text strings.Builder
		for range 1 + dice.IntN(8) {
			text.WriteString(pieces[dice.IntN(len(pieces))])
		}
		if re2.Check(text.String()) == nil {
			taken = append(taken, text.String())
		}
	}
	require.Greater(t, len(taken), 1000)
	envoytest.Validate(t, routing(t, taken...))
}

// routing starts an Envoy that matches paths with these expressions, with the agents' size limit.
func routing(t *testing.T, expressions ...string) *bootstrapv3.Bootstrap {
	t.Helper()
	routes := make([]any, len(expressions))
	for i, e := range expressions {
		routes[i] = map[string]any{"match": map[string]any{"safe_regex": map[string]any{"regex": e}}, "direct_response": map[string]any{"status": 200}}
	}
	list, err := structpb.NewList(routes)
	require.NoError(t, err)
	text, err := protojson.Marshal(list)
	require.NoError(t, err)
	b := &bootstrapv3.Bootstrap{}
	require.NoError(t, protojson.Unmarshal(fmt.Appendf(nil, `{
		"layeredRuntime": {"layers": [{"name": "limits", "staticLayer": {"re2.max_program_size.error_level": 32768}}]},
		"staticResources": {"listeners": [{"name": "l", "address": {"socketAddress": {"address": "127.0.0.1", "portValue": 0}},
			"filterChains": [{"filters": [{"name": "http", "typedConfig": {
				"@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager", "statPrefix": "x",
				"httpFilters": [{"name": "router", "typedConfig": {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}}],
				"routeConfig": {"name": "r", "virtualHosts": [{"name": "v", "domains": ["*"], "routes": %s}]}}}]}]}]}
	}`, text), b))
	return b
}
