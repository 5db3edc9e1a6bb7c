package convert_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert"
)

var update = flag.Bool("update", false, "write the golden files anew")

// written is a result as a golden file has it: what is told, and then the resources.
func written(t *testing.T, r *convert.Result) string {
	t.Helper()
	var b strings.Builder
	for _, v := range r.Notes {
		b.WriteString("# note: " + v.Error() + "\n")
	}
	for _, v := range r.Lost {
		b.WriteString("# warning: " + v.Error() + "\n")
	}
	var all []*kinds.Resource
	for _, d := range r.Documents {
		all = append(all, d.Resource)
	}
	text, err := kinds.MarshalYAML(all...)
	require.NoError(t, err)
	return b.String() + string(text)
}

var options = convert.Options{Namespace: "default", Class: "pgmesh"}

// found are the sources that are found out.
var found = []convert.Source{convert.Istio, convert.Ingress, convert.NGINX, convert.HAProxy}

func TestGolden(t *testing.T) {
	t.Parallel()
	inputs, err := filepath.Glob("testdata/*/*.in.*")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(inputs), 9)
	for _, in := range inputs {
		base, ext, _ := strings.Cut(filepath.Base(in), ".in.")
		t.Run(filepath.Base(filepath.Dir(in))+"/"+base, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(in)
			require.NoError(t, err)
			o := options
			if o.From = convert.Source(filepath.Base(filepath.Dir(in))); slices.Contains(found, o.From) {
				o.From = ""
			}
			r, err := convert.Files([]convert.File{{Name: base + "." + ext, Data: data}}, nil, o)
			require.NoError(t, err)
			got, golden := written(t, r), filepath.Join(filepath.Dir(in), base+".out.yaml")
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o600))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
			again, err := kinds.Parse("again.yaml", []byte(got))
			require.NoError(t, err, "apply takes it")
			require.Len(t, again, len(r.Documents))
		})
	}
}
