package store_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
)

// expressions are regular expressions, and what looks like some.
var expressions = []string{
	`a`, `^/api/.*$`, `a*`, `*`, `a**`, `a*?`, `a*??`, `a+?`, `a*+`, `+a`, `a|*`, `(*)`, `()`, `()*`, `(|)`, `(a`, `a)`, `((a)b)`, `a||b`, `|`,
	`^*`, `$+`, `.?`, `\b+`, `(?i)a`, `(?i)*`, `a(?i)*`, `(?i:a)*`, `(?-i)a`, `(?-)a`, `(?i-)a`, `(?i-s:a)`, `(?i-s-m:a)`, `(?x)a`, `(?)`, `(?:)`, `(?`, `(?i`,
	`(?=a)`, `(?!a)`, `(?<=a)`, `(?<!a)`, `(?>a)`, `(?#a)`, `(?P<x>a)`, `(?<x>a)`, `(?P<x>a)(?P<x>b)`, `(?P<x>a)(?P<y>b)`, `(?P<>a)`, `(?P<x-y>a)`, `(?P=x)`, `(?'x'a)`,
	`a{2}`, `a{2,}`, `a{2,3}`, `a{3,2}`, `a{,3}`, `a{`, `a{}`, `a{x}`, `a{01}`, `a{1000}`, `a{1001}`, `a{1,1001}`, `a{99999999999}`, `{2}`, `{`, `a{2}{3}`, `a{2}*`, `a{2}?`, `a{2}??`, `a{ 2}`, `a|{2}`, `}`, `a{2`, `a{0}`, `a{1,0}`,
	`[a]`, `[]`, `[]a]`, `[^]a]`, `[^]`, `[`, `[a`, `[a-z]`, `[z-a]`, `[a-]`, `[-a]`, `[a-b-c]`, `[\d-z]`, `[a-\d]`, `[\w]`, `[\b]`, `[\]]`, `[[]`, `[[:alpha:]]`, `[[:^alpha:]]`, `[[:foo:]]`, `[:alpha:]`, `[[:alpha]`, `[[:alpha:]`, `[\x41-\x5a]`, `[\x5a-\x41]`, `[\Q]`, `[\p{L}]`, `[\pL-z]`, `[\n-\t]`, `[\t-\n]`, `[é-ü]`, `[a-é]`, `[--a]`, `[a--]`, `[\--a]`, `[[:]`, `[[:a:b:]]`,
	`\`, `a\`, `\\`, `\d`, `\D`, `\h`, `\e`, `\G`, `\K`, `\Z`, `\z`, `\A`, `\C`, `\R`, `\1`, `\8`, `\0`, `\01`, `\12`, `\18`, `\x41`, `\x4`, `\x`, `\x{41}`, `\x{10FFFF}`, `\x{110000}`, `\x{}`, `\x{0000000041}`, `\x{zz}`, `\pL`, `\p{L}`, `\p{Greek}`, `\p{^Greek}`, `\P{L}`, `\p`, `\p{`, `\p{}`, `\_`, `\-`, `\/`, `\é`, `\ `, `\Qa*b\E`, `\Qa(`, `\Q`, `\Q\E*`, `\Q\E`, `a\Q\E*`, `\Qab\E*`, `\E`, `a\E`, `\Q\\E`, `\Q\`, `\u0041`, `\cA`, `\k<x>`,
	`(a+)+`, `(a{2}){3}`, `(a*)*`, `((((a))))`, `[a-z]+(-[a-z]+)*`, `^(GET|POST)$`, `.*\.example\.com`, `(?i)^bearer\s+(\S+)$`, "a\nb", `é+`, `日本{2}`,
	`^([0-9]{1,3}\.){3}[0-9]{1,3}(/([0-9]|[12][0-9]|3[0-2]))?$`, `cookie=.*(^|;)?(user=jason)(;.*)?`, `^(.*?;)?(user=dev-123)(;.*)?$`, `/v[0-9]+(?:/.*)?`,
}

// goTakes asks the validator of the programs.
func goTakes(t *testing.T, expression string) bool {
	t.Helper()
	kind, err := kinds.ByName("VirtualService")
	require.NoError(t, err)
	rewrite := map[string]any{"uriRegexRewrite": map[string]any{"match": expression, "rewrite": "/"}}
	route := map[string]any{"rewrite": rewrite, "route": []any{map[string]any{"destination": map[string]any{"host": "a"}}}}
	return len(kinds.Validate(kind, map[string]any{"hosts": []any{"a"}, "http": []any{route}}, nil)) == 0
}

func TestRegularExpressions(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	dice := rand.New(rand.NewPCG(1, 2))
	parts := append(strings.Split(`a|b|(|)|[|]|{|}|*|+|?|^|$|.|-|\|,|2|3|(?|i|:|P<x>|(?:|<|=|!|[:alpha:]|\d|\x41|\Q|\E|\p{L}|é|1001`, "|"), "|", "a", "b", "c")
	all := append([]string{}, expressions...)
	for range 4000 {
		var made strings.Builder
		for range 1 + dice.IntN(7) {
			made.WriteString(parts[dice.IntN(len(parts))])
		}
		all = append(all, made.String())
	}
	took := collect[bool](db, "SELECT mesh_internal.is_re2(x) FROM unnest($1::text[]) WITH ORDINALITY AS u (x, i) ORDER BY i", all)
	good := 0
	for i, expression := range all {
		if goTakes(t, expression) != took[i] {
			t.Errorf("%q: Go takes it: %t, Postgres: %t", expression, !took[i], took[i])
		}
		if took[i] {
			good++
		}
	}
	require.Greater(t, good, 500)

	// What Postgres leaves to Go.
	for _, expression := range []string{`\p{Klingon}`, `(a{500}){500}`} {
		require.False(t, goTakes(t, expression), expression)
		require.True(t, value[bool](db, "SELECT mesh_internal.is_re2($1)", expression), expression)
	}
}
