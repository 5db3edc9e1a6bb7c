package schema_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

func TestEveryKindHasARoot(t *testing.T) {
	t.Parallel()
	for _, k := range kinds.All() {
		root, ok := schema.Root(k.Group, k.Name)
		require.True(t, ok, "%s: generate the schema anew", k.TypeURL())
		require.NotEmpty(t, root.Fields, k.TypeURL())
	}
}

func TestTableIsSound(t *testing.T) {
	t.Parallel()
	for name, typ := range schema.Types() {
		require.Equal(t, name, typ.Name)
		known := map[string]bool{}
		for _, f := range typ.Fields {
			require.False(t, known[f.Name], "%s has %s twice", name, f.Name)
			known[f.Name] = true
			requireSoundField(t, name, f)
		}
		for _, oneof := range typ.Oneofs {
			require.Greater(t, len(oneof), 1, name)
			for _, member := range oneof {
				require.True(t, known[member], "%s: oneof member %s", name, member)
			}
		}
	}
}

func requireSoundField(t *testing.T, owner string, f schema.Field) {
	t.Helper()
	at := owner + "." + f.Name
	switch f.Type {
	case schema.Message:
		require.Contains(t, schema.Types(), f.TypeRef, at)
	case schema.Enum:
		require.NotEmpty(t, f.Enum, at)
		if f.TypeRef != "" {
			require.Len(t, f.Numbers, len(f.Enum), at)
		}
	case schema.Struct, schema.Bool, schema.String, schema.Int32, schema.Int64, schema.Uint32, schema.Uint64,
		schema.Double, schema.Duration, schema.Bytes:
	default:
		require.Fail(t, "unknown type", "%s: %s", at, f.Type)
	}
	_, err := regexp.Compile(f.Pattern)
	require.NoError(t, err, at)
	require.False(t, f.Repeated && f.Map, at)
}

func tree(t testing.TB, text string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var v any
	require.NoError(t, decoder.Decode(&v))
	return v
}

// ptr returns a pointer to a constant.
func ptr[T any](v T) *T { return &v }

// one returns a type with one field, "v".
func one(f schema.Field) *schema.Type {
	f.Name = "v"
	return &schema.Type{Fields: []schema.Field{f}}
}

func TestScalars(t *testing.T) {
	t.Parallel()
	between := schema.Field{Type: schema.Int32, Min: ptr(0.0), Max: ptr(100.0)}
	enum := schema.Field{Type: schema.Enum, Enum: []string{"UNSET", "STRICT", "PERMISSIVE"}, Numbers: []int{0, 3, 4}}
	for _, c := range []struct {
		field         schema.Field
		value, normal string
		reason, hint  string
	}{
		{schema.Field{Type: schema.Bool}, `true`, `true`, "", ""},
		{schema.Field{Type: schema.Bool}, `"true"`, "", `expected a boolean, got "true"`, ""},
		{schema.Field{Type: schema.String}, `""`, `""`, "", ""},
		{schema.Field{Type: schema.String}, `5`, "", `expected a string, got 5`, ""},
		{schema.Field{Type: schema.String, MinLength: ptr(1)}, `""`, "", `must not be empty`, ""},
		{schema.Field{Type: schema.String, MinLength: ptr(2)}, `"ä"`, "", `must have at least 2 characters, has 1`, ""},
		{schema.Field{Type: schema.String, MaxLength: ptr(1)}, `"äö"`, "", `must have at most 1 character, has 2`, ""},
		{schema.Field{Type: schema.String, Pattern: "^a+$"}, `"ab"`, "", `does not match the pattern ^a+$, got "ab"`, ""},
		{schema.Field{Type: schema.Struct}, `{"a":{"b":1}}`, `{"a":{"b":1}}`, "", ""},
		{schema.Field{Type: schema.Struct}, `[]`, "", `expected an object, got a list`, ""},

		{between, `100`, `100`, "", ""},
		{between, `"42"`, `42`, "", ""},
		{between, `1e1`, `10`, "", ""},
		{between, `7.0`, `7`, "", ""},
		{between, `"007"`, `7`, "", ""},
		{between, `150`, "", `must be between 0 and 100, got 150`, ""},
		{between, `-1`, "", `must be between 0 and 100, got -1`, ""},
		{between, `1.5`, "", `expected an integer, got 1.5`, ""},
		{between, `"one \n two"`, "", `expected an integer, got a string`, ""},
		{between, `"a word of more than forty characters, indeed"`, "", `expected an integer, got a string`, ""},
		{between, `1.50000000000000000000000000000000000000001`, "", `expected an integer, got a number`, ""},
		{between, `1e400`, "", `expected an integer, got 1e400`, ""},
		{between, `"1.5"`, "", `expected an integer, got "1.5"`, ""},
		{between, `99999999999999999999`, "", `must be between 0 and 100, got 99999999999999999999`, ""},
		{schema.Field{Type: schema.Uint64, Min: ptr(1.0)}, `0`, "", `must be at least 1, got 0`, ""},
		{schema.Field{Type: schema.Double, Max: ptr(5.0)}, `9`, "", `must be at most 5, got 9`, ""},
		{schema.Field{Type: schema.Double}, `"0.50"`, `0.50`, "", ""},
		{schema.Field{Type: schema.Double}, `"NaN"`, "", `expected a number, got "NaN"`, ""},

		{enum, `"STRICT"`, `"STRICT"`, "", ""},
		{enum, `3`, `"STRICT"`, "", ""},
		{enum, `1`, "", `unknown value "1"`, `one of UNSET, STRICT, PERMISSIVE`},
		{enum, `"STRIKT"`, "", `unknown value "STRIKT"`, `did you mean "STRICT"?`},
		{enum, `"FOO"`, "", `unknown value "FOO"`, `one of UNSET, STRICT, PERMISSIVE`},
		{enum, `true`, "", `expected a string, got true`, ""},
		{schema.Field{Type: schema.Enum, Enum: []string{"A"}}, `0`, "", `expected a string, got 0`, ""},

		{schema.Field{Type: schema.Bytes}, `"aGk"`, `"aGk="`, "", ""},
		{schema.Field{Type: schema.Bytes}, `"_-8="`, `"/+8="`, "", ""},
		{schema.Field{Type: schema.Bytes}, `"a b"`, "", `"a b" is not base64`, ""},
	} {
		normal, problems := schema.Check(one(c.field), "spec", map[string]any{"v": tree(t, c.value)})
		if c.reason != "" {
			require.Equal(t, []schema.Problem{{Path: "spec.v", Reason: c.reason, Hint: c.hint}}, problems, c.value)
			continue
		}
		require.Empty(t, problems, c.value)
		require.Equal(t, map[string]any{"v": tree(t, c.normal)}, normal, c.value)
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for value, normal := range map[string]string{
		`"5s"`: "5s", `"1m"`: "60s", `"1h30m"`: "5400s", `"100ms"`: "0.100s", `"1.5s"`: "1.500s", `"0s"`: "0s",
		`"0"`: "0s", `7`: "7s", `"7"`: "7s", `1e1`: "10s", `"-1.25s"`: "-1.250s", `"1us"`: "0.000001s", `"1ns"`: "0.000000001s",
		`"+2s"`: "2s", `".5s"`: "0.500s", `"-9223372036854775808ns"`: "-9223372036.854775808s", `"3.000s"`: "3s",
	} {
		got, problems := schema.Check(one(schema.Field{Type: schema.Duration}), "spec", map[string]any{"v": tree(t, value)})
		require.Empty(t, problems, value)
		require.Equal(t, map[string]any{"v": normal}, got, value)
	}
	hint := `write it as "5s", "100ms" or "1h30m"; a plain integer is taken as seconds`
	for value, reason := range map[string]string{
		`"soon"`: `"soon" is not a duration`, `""`: `"" is not a duration`, `"5 s"`: `"5 s" is not a duration`,
		`"1d"`: `"1d" is not a duration`, `"99999999999h"`: `"99999999999h" is not a duration`,
		`99999999999999`: `"99999999999999" is not a duration`,
		`1.5`:            `expected a duration such as "5s", got 1.5`, `{}`: `expected a duration such as "5s", got an object`,
	} {
		_, problems := schema.Check(one(schema.Field{Type: schema.Duration}), "spec", map[string]any{"v": tree(t, value)})
		require.Equal(t, []schema.Problem{{Path: "spec.v", Reason: reason, Hint: hint}}, problems, value)
	}
}

// shape has a field of each form.
var shape = &schema.Type{
	Fields: []schema.Field{
		{Name: "name", Type: schema.String, Required: true},
		{Name: "retryOn", Aliases: []string{"retry_on"}, Type: schema.String},
		{Name: "ports", Type: schema.Int32, Repeated: true, MinItems: ptr(1), MaxItems: ptr(2)},
		{Name: "levels", Type: schema.Bool, Map: true, KeyType: "uint32", MaxItems: ptr(1)},
		{Name: "labels", Type: schema.String, Map: true},
	},
	Oneofs: [][]string{{"ports", "levels", "labels"}},
}

func TestObjects(t *testing.T) {
	t.Parallel()
	type problems = []schema.Problem
	for _, c := range []struct {
		value string
		want  problems
	}{
		{`{"name": "a", "ports": [1]}`, nil},
		{`[]`, problems{{"spec", `expected an object, got a list`, ""}}},
		{`{"name": null, "ports": null}`, problems{{"spec.name", `required field is missing`, ""}}},
		{`{"name": "a", "retryon": "x", "zzz": 1, "a.b": 2}`, problems{
			{`spec["a.b"]`, `unknown field "a.b"`, `known fields: name, retryOn, ports, levels, labels`},
			{`spec.retryon`, `unknown field "retryon"`, `did you mean "retryOn"?`},
			{`spec.zzz`, `unknown field "zzz"`, `known fields: name, retryOn, ports, levels, labels`},
		}},
		{`{"name": "a", "retryOn": "x", "retry_on": "y"}`, problems{{"spec", `only one of retryOn, retry_on may be set`, ""}}},
		{`{"name": "a", "retry_on": 5}`, problems{{"spec.retry_on", `expected a string, got 5`, ""}}},
		{`{"name": "a", "ports": {}}`, problems{{"spec.ports", `expected a list, got an object`, ""}}},
		{`{"name": "a", "ports": []}`, problems{{"spec.ports", `must have at least 1 item, has 0`, ""}}},
		{`{"name": "a", "ports": [1, null, "x"]}`, problems{
			{"spec.ports", `must have at most 2 items, has 3`, ""},
			{"spec.ports[1]", `expected an integer, got null`, ""},
			{"spec.ports[2]", `expected an integer, got "x"`, ""},
		}},
		{`{"name": "a", "levels": []}`, problems{{"spec.levels", `expected an object, got a list`, ""}}},
		{`{"name": "a", "levels": {"80": true, "x": 1}}`, problems{
			{"spec.levels", `must have at most 1 item, has 2`, ""},
			{"spec.levels.x", `key "x" is not an integer`, ""},
		}},
		{`{"name": "a", "labels": {"app.kubernetes.io/name": 1, "b": null}}`, problems{
			{`spec.labels["app.kubernetes.io/name"]`, `expected a string, got 1`, ""},
			{`spec.labels.b`, `expected a string, got null`, ""},
		}},
		{`{"name": "a", "labels": {}, "levels": {}}`, problems{{"spec", `only one of levels, labels may be set`, ""}}},
	} {
		_, got := schema.Check(shape, "spec", tree(t, c.value))
		require.Equal(t, c.want, got, c.value)
	}
}

func TestNormalForm(t *testing.T) {
	t.Parallel()
	normal, problems := schema.Check(shape, "spec", tree(t, `{"name": "", "retry_on": "x", "ports": ["1", 0], "labels": null}`))
	require.Empty(t, problems)
	require.Equal(t, tree(t, `{"name": "", "retryOn": "x", "ports": [1, 0]}`), normal)
}

func TestNoFields(t *testing.T) {
	t.Parallel()
	_, problems := schema.Check(&schema.Type{}, "spec", tree(t, `{"a": 1}`))
	require.Equal(t, []schema.Problem{{Path: "spec.a", Reason: `unknown field "a"`, Hint: `it has no fields`}}, problems)
}
