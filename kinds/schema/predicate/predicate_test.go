package predicate_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds/schema/predicate"
)

// names are the variables of the examples, which are members of their trees.
var names = []string{"item", "i"}

// examples are predicates with trees of which they hold, and trees of which they do not.
var examples = []struct {
	predicate  string
	holds, not []string
}{
	{`$.a == "x"`, []string{`{"a":"x"}`, `{"a":["y","x"]}`, `[{"a":"x"}]`}, []string{`{"a":"y"}`, `{}`, `{"a":1}`, `{"a":{}}`, `{"a":null}`, `{"a":[["x"]]}`, `7`}},
	{`$.a != "x"`, []string{`{"a":"y"}`, `{"a":null}`, `{"a":["x","y"]}`}, []string{`{"a":"x"}`, `{}`, `{"a":1}`, `{"a":[]}`}},
	{`!($.a == "x")`, []string{`{}`, `{"a":"y"}`, `{"a":null}`}, []string{`{"a":"x"}`, `{"a":1}`, `{"a":{}}`}},
	{`$.a == null`, []string{`{"a":null}`}, []string{`{}`, `{"a":0}`, `{"a":{}}`}},
	{`$.a < "b"`, []string{`{"a":"a"}`, `{"a":"Z"}`}, []string{`{"a":"b"}`, `{"a":"ä"}`}},
	{`$.a > true`, nil, []string{`{"a":true}`, `{"a":"true"}`}},
	{`$.a >= false && $.a <= false`, []string{`{"a":false}`}, []string{`{"a":true}`}},
	{`$.a > 0.5`, []string{`{"a":1}`, `{"a":0.51}`, `{"a":1e30}`, `{"a":[0,1]}`}, []string{`{"a":0.5}`, `{"a":-1}`, `{"a":"1"}`, `{"a":true}`}},
	{`$.a == 9007199254740993`, []string{`{"a":9007199254740993}`}, []string{`{"a":9007199254740992}`}},
	{`$.a == $.b`, []string{`{"a":1,"b":1.0}`, `{"a":[1,2],"b":[3,2]}`}, []string{`{"a":[],"b":[]}`, `{"a":{},"b":{}}`, `{"a":1}`}},
	{`$.a starts with "x"`, []string{`{"a":"xy"}`, `{"a":["y","xy"]}`}, []string{`{"a":"yx"}`, `{"a":1}`, `{}`}},
	{`$.a like_regex "^x+$"`, []string{`{"a":"xx"}`, `{"a":["y","x"]}`}, []string{`{"a":"xy"}`, `{"a":["y"]}`, `{"a":{}}`, `{"a":"X"}`}},
	{`$.a like_regex "^x$" flag "i"`, []string{`{"a":"X"}`}, []string{`{"a":"Y"}`}},
	{`$.a like_regex "[^b]"`, []string{`{"a":"a"}`, `{"a":"\na"}`}, []string{`{"a":"\n"}`, `{"a":"b"}`}},
	{`$.a like_regex "[^b]|\n"`, []string{`{"a":"\n"}`}, []string{`{"a":"b"}`}},
	{`$.a like_regex "." flag "s"`, []string{`{"a":"\n"}`}, []string{`{"a":""}`}},
	{`$.a like_regex "a$"`, []string{`{"a":"a"}`}, []string{`{"a":"a\n"}`, `{"a":"a\nb"}`}},
	{`!($.a like_regex "x")`, []string{`{"a":"y"}`, `{}`}, []string{`{"a":1}`, `{"a":["y",1]}`}},
	{`exists($.a)`, []string{`{"a":null}`, `[{},{"a":[]}]`}, []string{`{}`, `[[{"a":1}]]`, `"a"`}},
	{`exists($.a[*])`, []string{`{"a":[null]}`, `{"a":1}`}, []string{`{"a":[]}`, `{}`}},
	{`exists($.*[*])`, []string{`{"a":1}`, `{"a":[],"b":[1]}`, `[{"b":1}]`}, []string{`{"a":[]}`, `{}`, `[]`, `1`}},
	{`exists($.a ? (@ != "" && @ != "x"))`, []string{`{"a":"y"}`, `{"a":["","y"]}`}, []string{`{"a":""}`, `{"a":["","x"]}`, `{"a":1}`}},
	{`exists($.a ? (@.b == $.c))`, []string{`{"a":[{"b":1},{"b":2}],"c":2}`}, []string{`{"a":{"b":1},"c":2}`}},
	{`exists($.a ? (exists(@.b ? (@ == 1)) && @.c == 2))`, []string{`{"a":{"b":[0,1],"c":2}}`}, []string{`{"a":{"b":1}}`, `{"a":{"c":2}}`}},
	{`$.a ? (@.b == 1).c == 2`, []string{`{"a":[{"b":1,"c":2}]}`}, []string{`{"a":[{"b":1,"c":3},{"b":2,"c":2}]}`}},
	{`$.**.t == "x"`, []string{`{"t":"x"}`, `{"a":[{"b":{"t":"x"}}]}`}, []string{`{"a":{"t":"y"}}`, `{"x":"t"}`}},
	{`$.a.size() == 2`, []string{`{"a":[1,2]}`}, []string{`{"a":[]}`, `{"a":[1,2,3]}`, `{}`}},
	{`$.a.size() == 1`, []string{`{"a":"x"}`, `{"a":{}}`, `{"a":["x"]}`}, []string{`{}`}},
	{`exists($.a.keyvalue() ? (@.key == "k" && @.value != ""))`, []string{`{"a":{"b":"","k":"v"}}`}, []string{`{"a":{"k":""}}`, `{"a":{}}`, `{"a":1}`, `{}`}},
	{`!exists($.a.keyvalue())`, []string{`{}`, `{"a":{}}`}, []string{`{"a":{"b":1}}`, `{"a":"x"}`}},
	{`exists($.a.keyvalue()) || true == true`, []string{`{"a":"x"}`, `{}`}, nil},
	{`$.a[1] == "x"`, []string{`{"a":["y","x"]}`}, []string{`{"a":["x"]}`, `{"a":["x","y"]}`, `{}`}},
	{`$.a[0] == "x"`, []string{`{"a":"x"}`, `{"a":["x"]}`}, []string{`{"a":["y","x"]}`}},
	{`exists($.a[0 to $.i - 1] ? (@ == $.item))`, []string{`{"a":["x","y"],"i":1,"item":"x"}`}, []string{`{"a":["x","y"],"i":1,"item":"y"}`, `{"a":["x"],"i":0,"item":"x"}`, `{"a":["x"],"i":"1","item":"x"}`, `{"a":["x"]}`}},
	{`$item.b == 1 && $i < $.a.size() - 1`, []string{`{"item":{"b":1},"i":0,"a":[1,2]}`}, []string{`{"item":{"b":1},"i":1,"a":[1,2]}`, `{"item":null,"i":0,"a":[1,2]}`}},
	{`$.a + 1 == $.b`, []string{`{"a":1,"b":2}`, `{"a":[0.5],"b":1.5}`}, []string{`{"a":[1,1],"b":2}`, `{"a":"1","b":2}`, `{"b":1}`}},
	{`$.a == "x" && $.b == "y" || $.c == "z"`, []string{`{"c":"z"}`, `{"a":"x","b":"y"}`, `{"a":1,"c":"z"}`}, []string{`{"a":"x"}`, `{"a":"x","b":1}`}},
}

func TestHolds(t *testing.T) {
	t.Parallel()
	for _, e := range examples {
		p, err := predicate.Parse(e.predicate, names...)
		require.NoError(t, err, e.predicate)
		for of, want := range map[bool][]string{true: e.holds, false: e.not} {
			for _, text := range want {
				root, values := given(t, text)
				require.Equal(t, of, p.Holds(root, values...), "%s of %s", e.predicate, text)
			}
		}
	}
}

// given is a tree, with the values of the variables.
func given(t testing.TB, text string) (root any, values []any) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&root), text)
	members, _ := root.(map[string]any)
	for _, name := range names {
		values = append(values, members[name])
	}
	return root, values
}

func TestWhatIsNotCompiledIsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`$.a`:                             "$.a is no predicate",
		`$.a == 10000000000000000000`:     "value out of range",
		`$.a ==`:                          "syntax error",
		`strict $.a == 1`:                 "strict mode is not supported",
		`$.a == $other`:                   `there is no variable $"other" here: there are ["item" "i"]`,
		`$.a.double() == 1`:               "is not supported in a predicate",
		`$.a * 2 == 1`:                    "is not supported in a predicate",
		`($.a == 1) is unknown`:           "is not supported in a predicate",
		`$.a[last] == 1`:                  "is not supported in a predicate",
		`$.**{2}.a == 1`:                  "is not supported in a predicate",
		`exists($.a ? (@.b.type() == 1))`: "is not supported in a predicate",
	} {
		_, err := predicate.Parse(text, names...)
		require.ErrorContains(t, err, want, text)
	}
}

// A list that is evaluated much later does not hold on to what was evaluated before, and no evaluation
// sees another's.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	p, err := predicate.Parse(`$.a[*] == $item`, "item")
	require.NoError(t, err)
	tree, _ := given(t, `{"a":["x","y","z"]}`)
	done := make(chan bool)
	for _, item := range []string{"x", "y", "z", "w"} {
		go func() {
			all := true
			for range 1000 {
				all = all && p.Holds(tree, item) == (item != "w")
			}
			done <- all
		}()
	}
	for range 4 {
		require.True(t, <-done)
	}
}
