package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

// The longest names, and text in any script, are not cut.
func TestLongNamesAndOtherScripts(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	space, name := strings.Repeat("n", 63), strings.Repeat("a.", 126)+"z"
	m.Apply(fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: %s, namespace: %s, annotations: {note: "日本語 — größer 🙂"}}
spec: {address: 10.0.0.1}
`, name, space))
	require.Contains(t, m.OK("get", "we", "-A"), space+"   "+name+"   10.0.0.1")
	require.Equal(t, "日本語 — größer 🙂", m.OK("get", "we", name, "-n", space, "-o", "jsonpath={.metadata.annotations.note}"))
	require.Contains(t, m.OK("describe", "we", name, "-n", space), "note=日本語 — größer 🙂\n")
	require.Contains(t, m.OK("blame", "we/"+space+"/"+name), "日本語 — größer 🙂")
	r := m.Pipe(m.OK("get", "we", "-A", "-o", "yaml"), "diff", "-f", "-")
	require.Equal(t, clitest.Result{}, r)
	require.Zero(t, m.Pipe("{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: b}, spec: {address: 10.0.0.2}}",
		"apply", "-f", "-", "-m", "größer\n日本語").Code)
	require.Equal(t, "größer\n日本語", m.OK("history", "--limit", "1", "-o", "jsonpath={[0].message}"))
}
