package output

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every template gives a text or an error, and does not change the answer.
func FuzzTemplate(f *testing.F) {
	list := []byte(`{"items": [{"metadata": {"name": "a", "labels": {"app.kubernetes.io/name": "x"}}, "spec": {"hosts": ["a", "b"], "weight": 80, "big": 1e400}}, null]}`)
	for _, template := range []string{
		".spec.hosts[0]", "{.items[*].metadata.name}", `{range .items[*]}{.metadata.name}{"\n"}{end}`, `{.items[?(@.spec.weight>50)].metadata.name}`,
		`{.items[0].metadata.labels.app\.kubernetes\.io/name}`, "{.items[-1:]}", "{..name}", "{.items[0:3:0]}", "{.items[::-1]}", "{end}", "{range}", "{.a", `{'a'}`,
	} {
		f.Add(template, list)
	}
	f.Fuzz(func(t *testing.T, template string, answer []byte) {
		tree, err := treeOf(answer)
		if err != nil {
			return
		}
		before, err := json.Marshal(tree)
		require.NoError(t, err)
		columns, err := parseColumns("A:" + template)
		if err == nil {
			require.NotEmpty(t, columns)
		}
		path, err := parsePath(template)
		if err != nil {
			return
		}
		_, _ = evaluate(path, tree)
		after, err := json.Marshal(tree)
		require.NoError(t, err)
		require.Equal(t, string(before), string(after))
	})
}
