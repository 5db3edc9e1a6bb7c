package gotemplate_test

import (
	"encoding/json"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/mcp-client/cli/gotemplate"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func data(t testing.TB) any {
	t.Helper()
	var tree any
	require.NoError(t, json.Unmarshal([]byte(`{"kind": "List", "items": [
		{"metadata": {"name": "a", "labels": {"app": "x", "b": "<y>"}}, "spec": {"hosts": ["a.example", "b.example"], "weight": 80.5, "on": true, "none": null}},
		{"metadata": {"name": "b"}, "spec": {"hosts": [], "weight": 20}}], "secret": "aGVsbG8="}`), &tree))
	tree.(map[string]any)["count"] = int64(2)
	return tree
}

// templates are some that mean the same to Go's own executor.
var templates = []string{
	`{{.kind}}`, `{{range .items}}{{.metadata.name}}{{"\n"}}{{end}}`, `{{range $i, $e := .items}}{{$i}}={{$e.metadata.name}} {{end}}`,
	`{{range $k, $v := (index .items 0).metadata.labels}}{{$k}}={{$v}};{{end}}`, `{{(index .items 0).spec.hosts}} {{.items}}`, `{{.missing}}`, `{{range .missing}}x{{else}}none{{end}}`,
	`{{with (index .items 0).spec}}{{.weight}}{{else}}x{{end}}{{with .missing}}y{{else}}z{{end}}`, `{{if and .kind (eq .kind "List")}}yes{{else if .x}}maybe{{else}}no{{end}}`,
	`{{range .items}}{{if eq .metadata.name "b"}}{{continue}}{{end}}{{.metadata.name}}{{end}}`, `{{range .items}}{{.metadata.name}}{{break}}{{end}}`,
	`{{len .items}} {{len .kind}} {{len (index .items 0).metadata.labels}}`, `{{printf "%s has %d: %v" .kind .count .items}}`, `{{print 1 2 "a" nil}}{{println .kind .missing}}`,
	`{{define "x"}}<{{.}}{{$}}>{{end}}{{template "x" .kind}}{{template "x"}}`, `{{block "b" .kind}}[{{.}}]{{end}}`, `{{$x := 1}}{{range .items}}{{$x = 2}}{{end}}{{$x}}`,
	`{{$n := .kind}}{{with $n}}{{$n := "inner"}}{{$n}}{{end}}{{$n}}`, `{{.kind | printf "%s-%s" "a" | html}}`, `{{html "<a>" 1 .missing}} {{urlquery "a b&c"}}`,
	`{{slice .kind 1 3}} {{slice .items 1}} {{index .items 1}}`, `{{not .kind}} {{not .missing}} {{or .missing "" "c"}} {{and 1 0 .x}} {{.kind | and 1}} {{"" | or 0}}`,
	`{{lt 1 2}} {{le "a" "b"}} {{gt 1.5 1.0}} {{ge 2 2}} {{ne .kind "x"}} {{eq .kind "a" "List"}} {{eq true true}} {{eq 1 2 3}}`, `{{range 3}}{{.}}{{end}}{{range $i := 2}}{{$i}}{{end}}`,
	`{{1e3}} {{0x1e}} {{'a'}} {{1.0}} {{-5}} {{true}}`, "{{- /* a comment */ -}} a {{- `b` }}", `{{(index .items 0).spec.none}} {{index (index .items 0).metadata.labels "app"}} {{index .items 0 "metadata" "name"}}`,
	`{{range $i, $_ := .items}}{{range $j, $_ := $.items}}{{$i}}{{$j}} {{end}}{{end}}`, `{{if not (eq (len .items) 3)}}few{{end}}`, `{{range .items}}{{range .spec.hosts}}{{.}},{{else}}-{{end}}{{end}}`, ``,
}

func theirs(written string, on any) (string, error) {
	var b strings.Builder
	t, err := template.New("template").Parse(written)
	if err == nil {
		err = t.Execute(&b, on)
	}
	return b.String(), err
}

func ours(written string, on any) (string, error) {
	t, err := gotemplate.Parse(written)
	if err != nil {
		return "", err
	}
	made, err := t.Execute(on)
	return string(made), err
}

func TestTemplatesMeanWhatTheyMeanInGo(t *testing.T) {
	t.Parallel()
	for _, written := range templates {
		want, err := theirs(written, data(t))
		require.NoError(t, err, written)
		made, err := ours(written, data(t))
		require.NoError(t, err, written)
		require.Equal(t, want, made, written)
	}
}

// kubectl has two functions more, and does not mind what is missing.
func TestTemplatesMeanWhatTheyMeanToKubectl(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		`{{base64decode .secret}} {{.secret | base64decode}}`:                              "hello hello",
		`{{range .items}}{{exists . "metadata" "labels" "app"}} {{end}}{{exists .kind 1}}`: "true false false",
		`{{.missing.of.it}} {{index .missing "a"}}`:                                        "<no value> <no value>",
		`{{eq .count 2.0}} {{lt .count 2.5}} {{eq .missing nil}}{{eq .missing "a"}}`:       "true true truefalse",
	} {
		made, err := ours(written, data(t))
		require.NoError(t, err, written)
		require.Equal(t, want, made, written)
	}
}

func TestMistakesInTemplatesAreTold(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		`{{.kind`: "unclosed action", `{{x .kind}}`: `function "x" not defined`, `{{end}}`: "unexpected {{end}}", `{{.kind.name}}`: `.kind.name: there is no name in the string "List"`,
		`{{range .kind}}{{end}}`: `.kind: it cannot go through the string "List"`, `{{len .count}}`: "len .count: 2 has no length", `{{index .items 7}}`: "there is no item 7 in a list of 2",
		`{{index .items "a"}}`: "there is no item a in a list of 2", `{{index . 1}}`: "1 is no name of a member", `{{lt .kind 1}}`: `the string "List" and 1 cannot be compared`,
		`{{eq .items .items}}`: "a list and a list cannot be compared", `{{.kind .count}}`: ".kind is no function", `{{slice .kind 3 9}}`: "9 is no place", `{{slice .kind 3 1}}`: "it begins at 3 and ends at 1",
		`{{slice . 1}}`: "an object has no order", `{{printf 1}}`: "it takes a format first", `{{base64decode "*"}}`: "decode base64", `{{base64decode 1}}`: "1 is no string", `{{not}}`: "it takes one argument, and there are 0",
		`{{lt 1}}`: "it takes two arguments, and there are 1", `{{eq 1}}`: "two arguments at least", `{{and}}`: "one argument at least", `{{template "x"}}`: `there is no template "x"`,
		`{{define "x"}}{{template "x"}}{{end}}{{template "x"}}`: "templates call each other more than 1000 deep", `{{range 99999999999}}{{end}}`: "the template does not end",
		`{{1i}}`: "1i is no number of JSON", `{{range .items}}{{.metadata.name.x}}{{end}}`: `there is no x in the string "a"`, `{{with .kind.x}}{{end}}`: "there is no x", `{{slice}}`: "a list or a string",
		`{{index}}`: "it takes a list or an object", `{{index .count 1}}`: "2 has no items",
	} {
		_, err := ours(written, data(t))
		require.ErrorContains(t, err, want, written)
	}
}

// Whatever both executors make of a template is the same, and nothing changes the answer.
func FuzzTemplates(f *testing.F) {
	for _, written := range templates {
		f.Add(written)
	}
	f.Fuzz(func(t *testing.T, written string) {
		if strings.ContainsAny(written, "\x00*") || strings.Contains(written, "range") && len(written) > 200 { // a width of printf, and what takes long
			return
		}
		on := data(t)
		before, err := json.Marshal(on)
		require.NoError(t, err)
		made, failed := ours(written, on)
		after, err := json.Marshal(on)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
		if want, err := theirs(written, on); failed == nil && err == nil {
			require.Equal(t, want, made, written)
		}
	})
}
