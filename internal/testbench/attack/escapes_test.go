package attack

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// hostile is a text that attacks terminals: it sets the title, hides what follows, goes up a line,
// and reverses letters.
const hostile = "planted\x1b]0;owned\a\x1b[8m\u009b1A\u202e\r\nforged\trow\x7f"

// Whoever may write a text that others print could control their terminals.
func TestATenantDoesNotDriveTheTerminalsOfOthers(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	evil := m.tenant("evil", "evil")
	plant(t, evil)
	holdUp(t, m.tenant("late", "evil"), evil)
	poll.Eventually(t, func(ctx context.Context) error {
		var pid int
		return m.owner.QueryRow(ctx, "SELECT pid FROM mesh.blockers LIMIT 1").Scan(&pid)
	})

	tried := slices.Concat(reading, pgmeshAlone)
	for _, command := range tried {
		said, _ := m.Client(t.Context(), "", strings.Fields(command)...) // some commands report problems by their exit code
		if !slices.Contains(exact, command) {
			requireHarmless(t, command, said)
		}
	}
	for _, command := range []string{"get vs -A -o json", "describe vs -n evil", "history", "history --diff"} {
		require.Contains(t, m.saysAnyway(command), `\u001b]0;owned\u0007`, "%s does not print what was planted", command)
	}
	out, _ := m.Run(t.Context(), "mcp-server", "blockers", "--database", m.database)
	require.Contains(t, out, "planted")
	requireHarmless(t, "mcp-server blockers", out)
	requireHarmless(t, "mcp-server's log", m.MCPServer.Log())
	requireHarmless(t, "discovery's log", m.Discovery.Log())
	requireAllTried(t, m.client("reference"), tried)
}

// exact are commands whose output is read again, from files and pipes. mcp-client tests them on a
// terminal.
var exact = []string{"get vs -A -o yaml", "get vs -A -o jsonpath={.items[*].metadata.annotations.text}", "export", "snapshot save -", "convert vs -A"}

// reading are commands that print what others wrote, about the resources that plant made.
var reading = []string{
	"get vs -A", "get vs -A -o wide", "get vs -A -o json", "get vs -A -o yaml", "get vs -A -o name",
	"get vs -A -o custom-columns=N:.metadata.name,T:.metadata.annotations.text", "get vs -A -o jsonpath={.items[*].metadata.annotations.text}",
	"get se,eni -A -o wide", "describe vs -n evil", "describe se -n evil", "services", "services planted.evil.mesh -o wide", "services -o json", "watch vs -A --count 1", "watch vs -A --count 1 -o json", "diff 1", "diff 1 2", "diff 1 -o json",
	"compare 127.0.0.1:1", "snapshot save -", "snapshot show /dev/null", "snapshot load /dev/null", "status", "problems -A", "problems -A -o json", "history",
	"history --diff", "history -o json", "blame vs/planted -n evil", "export", "blockers", "blockers end 1", "proxy-status", "rollout status", "rollout status 1", "rollout history", "rollout watch --count 1", "proxy-config all none",
	"proxy-config clusters none", "proxy-config endpoints none", "proxy-config listeners none", "proxy-config routes none", "proxy-config secrets none", "authz check none",
	"restore 1 --dry-run", "revert 2 --dry-run", "confirm --list", "token list", "identity list", "identity log", "machines list", "machines show none",
	"secret list -A", "issuer list", "trust list", "default-deny", "quota list", "quota list -o json", "hosts list", "hosts list -o json", "hosts owner a.evil.mesh", "authority show", "apply --dry-run -f /dev/null", "validate -f /dev/null", "convert vs -A", "delete vs planted -n evil --dry-run",
	"get vs -A --show-labels", "get vs -A --sort-by .metadata.annotations.text --no-headers", "namespaces", "wait se/planted -n evil --for=jsonpath=.metadata.annotations.text", "delete se -n evil -l a=b --dry-run",
	"annotate se planted -n evil a=b --dry-run", "label se planted -n evil a=b --dry-run", "patch se planted -n evil -p {} --dry-run", "create --dry-run -f /dev/null", "replace --dry-run -f /dev/null",
	"problems /dev/null", "problems -A -o github", "problems -A -o sarif",
}

// pgmeshAlone print nothing that a tenant wrote. They are listed so that a new command is noticed.
var pgmeshAlone = []string{
	"auth can-i get vs", "authority activate 99", "authority retire 99", "authority roots", "authority rotate --help", "bench --help", "completion --help", "context list", "context show", "context set --help",
	"context use none", "context delete none", "edit --help", "explain vs", "schema vs", "identity restore none", "identity revoke none", "import --dry-run /dev/null", "issuer create --help", "issuer delete none",
	"default-deny off", "default-deny on --help", "hosts grant --help", "hosts reserve --help", "hosts revoke none.mesh", "kinds", "machines remove none", "quota reset none", "quota set --help", "secret create tls --help", "secret create ca --help", "create secret tls --help", "create secret ca --help", "sync --help", "token create --help", "token revoke none",
	"trust add --help", "trust remove none", "version", "whoami",
}

// plant writes the text wherever a tenant may, and into the message of each transaction.
func plant(t *testing.T, evil *pgx.Conn) {
	t.Helper()
	inTransaction(t, evil, "INSERT INTO mesh.resources (kind, namespace, name, spec, annotations) VALUES ('VirtualService', 'evil', 'planted', $1, $2)",
		map[string]any{"hosts": []string{"missing.evil.mesh"}, "http": []any{map[string]any{
			"name": hostile, "match": []any{map[string]any{"headers": map[string]any{"x": map[string]any{"exact": hostile}}}},
			"route": []any{map[string]any{"destination": map[string]any{"host": "missing.evil.mesh"}}},
		}}}, map[string]string{"text": hostile})
	inTransaction(t, evil, "INSERT INTO mesh.resources (kind, namespace, name, spec, annotations) VALUES ('ServiceEntry', 'evil', 'planted', $1, $2)",
		map[string]any{"hosts": []string{"planted.evil.mesh"}, "resolution": "STATIC", "ports": []any{map[string]any{"number": 80, "name": "http"}}},
		map[string]string{"text": hostile})
	for _, sql := range []string{
		"INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('VirtualService', 'evil', $1, '{\"hosts\": [\"a.evil.mesh\"]}')",
		"INSERT INTO mesh.resources (kind, namespace, name, spec, labels) VALUES ('VirtualService', 'evil', 'labels', '{\"hosts\": [\"a.evil.mesh\"]}', jsonb_build_object('a', $1::text))",
		"INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('ServiceEntry', 'evil', 'host', jsonb_build_object('hosts', jsonb_build_array($1::text)))",
	} {
		refused(t, evil, sql, hostile)
	}
}

// inTransaction runs a statement in a transaction with the text as its message.
func inTransaction(t *testing.T, evil *pgx.Conn, sql string, args ...any) {
	t.Helper()
	tx, err := evil.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT set_config('mesh.message', $1, true), set_config('application_name', $1, true)", strings.ReplaceAll(hostile, "\r\n", " "))
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
}

// holdUp leaves a transaction open with the text in its query, and another one that waits for it.
func holdUp(t *testing.T, late, evil *pgx.Conn) {
	t.Helper()
	const update = "UPDATE mesh.virtual_services SET labels = '{}' WHERE name = 'planted'"
	_, err := evil.Exec(t.Context(), "BEGIN; "+update+" /* "+hostile+" */")
	require.NoError(t, err)
	waits := make(chan error, 1)
	go func() {
		_, err := late.Exec(t.Context(), update)
		waits <- err
	}()
	t.Cleanup(func() {
		require.NoError(t, evil.Close(t.Context()))
		<-waits
	})
}

// saysAnyway is what a command prints, whatever its exit code.
func (m *mesh) saysAnyway(command string) string {
	said, _ := m.Client(m.t.Context(), "", strings.Fields(command)...)
	return said
}

// requireHarmless looks for characters that terminals obey, and for a line that the text has
// forged.
func requireHarmless(t *testing.T, what, said string) {
	t.Helper()
	for _, r := range said {
		require.True(t, unicode.IsGraphic(r) || r == '\n' || r == '\t', "%s prints %U:\n%q", what, r, said)
	}
	require.NotRegexp(t, `(?m)^forged`, said, what)
}

// requireAllTried finds commands in the reference that this test does not know.
func requireAllTried(t *testing.T, reference string, tried []string) {
	t.Helper()
	headings := regexp.MustCompile(`(?m)^## ([a-z][a-z -]+)$`).FindAllStringSubmatch(reference, -1)
	require.Greater(t, len(headings), 50)
	for i, heading := range headings {
		family := i+1 < len(headings) && strings.HasPrefix(headings[i+1][1], heading[1]+" ")
		is := slices.ContainsFunc(tried, func(c string) bool { return strings.HasPrefix(c+" ", heading[1]+" ") })
		require.True(t, is || family, "mcp-client %s is tried by nobody: add it to reading, or to pgmeshAlone", heading[1])
	}
}
