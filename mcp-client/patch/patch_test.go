package patch_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mcp-client/patch"
)

func tree(t *testing.T, text string) (read any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &read))
	return read
}

// The cases are those of RFC 7386.
func TestMerge(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
	} {
		require.Equal(t, tree(t, c[2]), patch.Merge(tree(t, c[0]), tree(t, c[1])), "%v", c)
	}
}

// The cases are of RFC 6902.
func TestApply(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{`{"foo":"bar"}`, `[{"op":"add","path":"/baz","value":"qux"}]`, `{"baz":"qux","foo":"bar"}`},
		{`{"foo":["bar","baz"]}`, `[{"op":"add","path":"/foo/1","value":"qux"}]`, `{"foo":["bar","qux","baz"]}`},
		{`{"foo":["bar"]}`, `[{"op":"add","path":"/foo/-","value":["abc"]}]`, `{"foo":["bar",["abc"]]}`},
		{`{"foo":["bar","qux"]}`, `[{"op":"remove","path":"/foo/1"}]`, `{"foo":["bar"]}`},
		{`{"baz":"qux"}`, `[{"op":"replace","path":"/baz","value":null}]`, `{"baz":null}`},
		{`{"foo":{"bar":"baz","waldo":"fred"},"qux":{}}`, `[{"op":"move","from":"/foo/waldo","path":"/qux/thud"}]`, `{"foo":{"bar":"baz"},"qux":{"thud":"fred"}}`},
		{`{"foo":["all","grass","cows","eat"]}`, `[{"op":"move","from":"/foo/1","path":"/foo/3"}]`, `{"foo":["all","cows","eat","grass"]}`},
		{`{"a":{"b":[1]}}`, `[{"op":"copy","from":"/a","path":"/c"},{"op":"add","path":"/c/b/-","value":2}]`, `{"a":{"b":[1]},"c":{"b":[1,2]}}`},
		{`{"a/b":{"m~n":1}}`, `[{"op":"test","path":"/a~1b/m~0n","value":1}]`, `{"a/b":{"m~n":1}}`},
		{`{"a":1}`, `[{"op":"replace","path":"","value":{"b":2}}]`, `{"b":2}`},
		{`{"a":[[1]]}`, `[{"op":"add","path":"/a/0/0","value":0}]`, `{"a":[[0,1]]}`},
		{`{"a":1}`, `[{"op":"move","from":"/a","path":"/a"}]`, `{"a":1}`},
	} {
		changed, err := patch.Apply(tree(t, c[0]), operations(t, c[1]))
		require.NoError(t, err, "%v", c)
		require.Equal(t, tree(t, c[2]), changed, "%v", c)
	}
	for operation, reason := range map[string]string{
		`{"op":"test","path":"/a","value":2}`:     "operation 1, test /a: it is 1",
		`{"op":"add","path":"/x/y","value":2}`:    "there is nothing at that path",
		`{"op":"add","path":"/l/2","value":2}`:    "there is nothing at that path",
		`{"op":"add","path":"/l/01","value":2}`:   `"01" is no index of a list`,
		`{"op":"add","path":"/l/1"}`:              "the value is missing",
		`{"op":"remove","path":"/x"}`:             "there is nothing at that path",
		`{"op":"remove","path":"/l/x"}`:           `"x" is no index of a list`,
		`{"op":"replace","path":"/x","value":1}`:  "there is nothing at that path",
		`{"op":"move","from":"/x","path":"/a"}`:   "from /x: there is nothing at that path",
		`{"op":"move","from":"/l","path":"/l/0"}`: "nothing can be moved into itself",
		`{"op":"merge","path":"/l"}`:              "is no operation",
		`{"op":"remove","path":"a"}`:              "a path begins with /",
		`{"op":"remove","path":"/a/b"}`:           "there is nothing at that path",
	} {
		_, err := patch.Apply(tree(t, `{"a":1,"l":[1]}`), operations(t, "["+operation+"]"))
		require.ErrorContains(t, err, reason, operation)
	}
}

func operations(t *testing.T, text string) (read []patch.Operation) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &read), text)
	return read
}

func FuzzApply(f *testing.F) {
	f.Add(`{"a":[1]}`, `[{"op":"add","path":"/a/-","value":2},{"op":"move","from":"/a","path":"/b"}]`)
	f.Add(`[]`, `[{"op":"remove","path":""},{"op":"copy","from":"","path":"/0"}]`)
	f.Fuzz(func(_ *testing.T, document, text string) {
		var tree any
		var operations []patch.Operation
		if json.Unmarshal([]byte(document), &tree) != nil || json.Unmarshal([]byte(text), &operations) != nil || len(operations) > 20 { // each may double the tree
			return
		}
		_, _ = patch.Apply(tree, operations)
	})
}
