package translate_test

import (
	"bytes"
	"flag"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

var update = flag.Bool("update", false, "write what is translated to testdata/*/*.out.yaml")

// TestGolden compares the output of each testdata/<kind>/<feature>.in.yaml with the .out.yaml
// beside it. The first document of an input names the proxy and the messages to show. The others
// are resources.
func TestGolden(t *testing.T) {
	t.Parallel()
	for _, file := range inputs(t) {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".in.yaml"), func(t *testing.T) {
			t.Parallel()
			in := readInput(t, file)
			out := in.translate(t, in.resources)
			out.requireValid(t)
			got := render(t, in, out)
			want := strings.TrimSuffix(file, ".in.yaml") + ".out.yaml"
			if *update {
				require.NoError(t, os.WriteFile(want, got, 0o644))
			}
			expected, err := os.ReadFile(want)
			require.NoError(t, err, "run the tests with -update to write it")
			require.Empty(t, cmp.Diff(string(expected), string(got)))
		})
	}
}

func inputs(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/*/*.in.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// render writes the messages that the input shows, each under its kind, as YAML with sorted keys.
func render(t *testing.T, in input, out output) []byte {
	t.Helper()
	tree := map[string][]any{}
	for kind, messages := range out.byKind() {
		for _, m := range messages {
			if in.shows(kind, name(m)) {
				shown := asTree(t, m)
				if !in.Traces {
					leaveOutTracing(shown)
				}
				tree[kind] = append(tree[kind], shown)
			}
		}
	}
	for _, line := range out.unpatched {
		if len(in.Show["unpatched"]) > 0 {
			tree["unpatched"] = append(tree["unpatched"], line)
		}
	}
	for kind := range in.Show {
		require.NotEmpty(t, tree[kind], "the input shows %s, and nothing of the kind came out", kind)
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	require.NoError(t, e.Encode(tree))
	return b.Bytes()
}

// leaveOutTracing removes tracing from all connection managers in the tree.
func leaveOutTracing(tree any) {
	switch tree := tree.(type) {
	case []any:
		for _, item := range tree {
			leaveOutTracing(item)
		}
	case map[string]any:
		if _, isManager := tree["httpFilters"]; isManager {
			delete(tree, "tracing")
		}
		for _, member := range tree {
			leaveOutTracing(member)
		}
	}
}

func (in input) shows(kind, name string) bool {
	for _, pattern := range in.Show[kind] {
		if ok, _ := path.Match(pattern, name); ok {
			return true
		}
	}
	return false
}

func asTree(t *testing.T, m proto.Message) any {
	t.Helper()
	text, err := protojson.Marshal(m)
	require.NoError(t, err)
	var tree any
	require.NoError(t, yaml.Unmarshal(text, &tree)) // JSON is YAML, and this way numbers stay whole
	return tree
}
