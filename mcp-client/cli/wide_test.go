package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The longest names, and text in any script, are not cut.
func TestLongNamesAndOtherScripts(t *testing.T) {
	t.Parallel()
	m := start(t)
	space, name := strings.Repeat("n", 63), strings.Repeat("a.", 126)+"z"
	m.apply(fmt.Sprintf(`apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: %s, namespace: %s, annotations: {note: "日本語 — größer 🙂"}}
spec: {address: 10.0.0.1}
`, name, space))
	require.Contains(t, m.ok("get", "we", "-A"), space+"   "+name+"   10.0.0.1")
	require.Equal(t, "日本語 — größer 🙂", m.ok("get", "we", name, "-n", space, "-o", "jsonpath={.metadata.annotations.note}"))
	require.Contains(t, m.ok("describe", "we", name, "-n", space), "note=日本語 — größer 🙂\n")
	require.Contains(t, m.ok("blame", "we/"+space+"/"+name), "日本語 — größer 🙂")
	r := m.pipe(m.ok("get", "we", "-A", "-o", "yaml"), "diff", "-f", "-")
	require.Equal(t, result{}, r)
	require.Zero(t, m.pipe("{apiVersion: networking.istio.io/v1, kind: WorkloadEntry, metadata: {name: b}, spec: {address: 10.0.0.2}}",
		"apply", "-f", "-", "-m", "größer\n日本語").code)
	require.Equal(t, "größer\n日本語", m.ok("history", "--limit", "1", "-o", "jsonpath={[0].message}"))
}

// A history of many revisions, and a revision of many changes, are complete.
func TestLongHistory(t *testing.T) {
	t.Parallel()
	m := start(t)
	m.execute(`DO $$ BEGIN FOR i IN 1..1100 LOOP
		PERFORM set_config('mesh.message', 'number ' || i, true);
		INSERT INTO mesh.workload_entries (namespace, name, address) VALUES ('default', 'w' || i, '10.0.0.1');
		COMMIT;
	END LOOP; END $$`)
	require.Equal(t, 1100, strings.Count(m.ok("history", "--limit", "0", "-o", "name"), "\n"))
	require.Equal(t, 1050, strings.Count(m.ok("history", "--limit", "1050", "-o", "name"), "\n"))
	require.Equal(t, 20, strings.Count(m.ok("history", "-o", "name"), "\n"))
	r := m.run("diff", "1", "-o", "name")
	require.Equal(t, 1, r.code, r.err)
	require.Equal(t, 1099, strings.Count(r.out, "\n"))
	dry := m.ok("restore", "--to", "1", "--dry-run", "-o", "name")
	require.Equal(t, 1099, strings.Count(dry, "\n"))
}
