package store_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

const reference = "../docs/sql.md"

var update = flag.Bool("update", false, "write what the examples answer to "+reference)

// example is a block of SQL, and the block of text after it, if there is one, with what it answers.
// A block whose text begins with an error is to fail, and so is the rest of it not run.
var example = regexp.MustCompile("(?ms)^```sql\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?")

// The examples of the reference do what it says. They run one after the other in one session, as a
// person would type them.
func TestReference(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(reference)
	require.NoError(t, err)
	reader := newReader(t)
	at := 0
	var rewritten bytes.Buffer
	for _, m := range example.FindAllSubmatchIndex(doc, -1) {
		sql := string(doc[m[2]:m[3]])
		line := 1 + bytes.Count(doc[:m[2]], []byte("\n"))
		got := reader.run(sql)
		if m[4] < 0 {
			require.NotContains(t, got, "ERROR:", "%s:%d", reference, line)
			continue
		}
		rewritten.Write(doc[at:m[4]])
		rewritten.WriteString(got)
		at = m[5]
		if !*update {
			require.Empty(t, cmp.Diff(string(doc[m[4]:m[5]]), got), "%s:%d answers otherwise; go test ./store -run TestReference -update writes what it answers", reference, line)
		}
	}
	if *update {
		rewritten.Write(doc[at:])
		require.NoError(t, os.WriteFile(reference, rewritten.Bytes(), 0o644))
	}
}

// The page tells of every view. Those of kinds have a table, and are named like their kinds.
func TestReferenceHasEveryView(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(reference)
	require.NoError(t, err)
	views := collect[string](connect(t, pgtest.New(t)), `SELECT relname::text FROM pg_class WHERE relnamespace = 'mesh'::regnamespace AND relkind = 'v'
		AND obj_description(oid, 'pg_class') NOT LIKE 'Deprecated%' AND relname NOT IN (SELECT view FROM mesh_internal.editable_views) ORDER BY 1`)
	require.Greater(t, len(views), 15)
	for _, view := range views {
		if !regexp.MustCompile(`mesh\.` + view + `\b`).Match(doc) {
			t.Errorf("mesh.%s is not in %s: tell of it, or move it to mesh_internal", view, reference)
		}
	}
}

// reader is a session that writes answers as psql does.
type reader struct {
	t       *testing.T
	conn    *pgx.Conn
	notices *bytes.Buffer
}

func newReader(t *testing.T) reader {
	t.Helper()
	r := reader{t: t, notices: &bytes.Buffer{}}
	config, err := pgx.ParseConfig(pgtest.New(t))
	require.NoError(t, err)
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { r.notices.WriteString(message((*pgconn.PgError)(n))) }
	r.conn, err = pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.conn.Close(context.Background()) })
	sample, err := os.ReadFile("../docs/bookinfo.sql")
	require.NoError(t, err)
	require.NotContains(t, r.run("SET TIME ZONE 'UTC'; SET application_name = 'psql';\n"+string(sample)), "ERROR:")
	return r
}

// run runs the statements, each on its own, up to the first that fails.
func (r reader) run(sql string) string {
	var answers strings.Builder
	for _, statement := range statements(sql) {
		results, err := r.conn.PgConn().Exec(r.t.Context(), statement).ReadAll()
		answers.WriteString(r.notices.String())
		r.notices.Reset()
		for _, result := range results {
			answers.WriteString(answer(result))
		}
		if failed, ok := errors.AsType[*pgconn.PgError](err); ok {
			answers.WriteString(message(failed))
			break
		}
		require.NoError(r.t, err, statement)
	}
	return answers.String()
}

// statements splits SQL after each semicolon at the end of a line, except within dollar quotes.
func statements(sql string) (list []string) {
	statement := ""
	for line := range strings.Lines(sql) {
		statement += line
		if strings.HasSuffix(strings.TrimSpace(line), ";") && strings.Count(statement, "$$")%2 == 0 {
			list = append(list, statement)
			statement = ""
		}
	}
	if strings.TrimSpace(statement) != "" {
		list = append(list, statement)
	}
	return list
}

func message(e *pgconn.PgError) string {
	text := fmt.Sprintf("%s:  %s\n", e.Severity, e.Message)
	if e.Detail != "" {
		text += fmt.Sprintf("DETAIL:  %s\n", e.Detail)
	}
	if e.Hint != "" {
		text += fmt.Sprintf("HINT:  %s\n", e.Hint)
	}
	return text
}

// answer is a table with its number of rows, or else what was done.
func answer(r *pgconn.Result) string {
	if len(r.FieldDescriptions) == 0 {
		return quiet.ReplaceAllString(r.CommandTag.String()+"\n", "")
	}
	lines := []string{tableLine(r, func(i int) string { return r.FieldDescriptions[i].Name }, centered)}
	lines = append(lines, strings.ReplaceAll(strings.ReplaceAll(tableLine(r, func(int) string { return "" }, func(width int, _ string, _ bool) string {
		return strings.Repeat("-", width)
	}), " | ", "-+-"), " ", "-"))
	for _, row := range r.Rows {
		lines = append(lines, tableLine(r, func(i int) string { return string(row[i]) }, aligned))
	}
	rows := "rows"
	if len(r.Rows) == 1 {
		rows = "row"
	}
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n") + fmt.Sprintf("\n(%d %s)\n", len(r.Rows), rows)
}

// quiet are the statements of which psql says as much as it was told.
var quiet = regexp.MustCompile(`^(BEGIN|COMMIT|ROLLBACK|SET|RESET)\n$`)

func tableLine(r *pgconn.Result, cell func(int) string, fit func(width int, text string, number bool) string) string {
	cells := make([]string, len(r.FieldDescriptions))
	for i, f := range r.FieldDescriptions {
		width := utf8.RuneCountInString(f.Name)
		for _, row := range r.Rows {
			width = max(width, utf8.RuneCount(row[i]))
		}
		cells[i] = fit(width, cell(i), isNumber[f.DataTypeOID])
	}
	return " " + strings.Join(cells, " | ") + " "
}

func centered(width int, text string, _ bool) string {
	space := width - utf8.RuneCountInString(text)
	return strings.Repeat(" ", space/2) + text + strings.Repeat(" ", space-space/2)
}

func aligned(width int, text string, number bool) string {
	space := strings.Repeat(" ", width-utf8.RuneCountInString(text))
	if number {
		return space + text
	}
	return text + space
}

var isNumber = map[uint32]bool{20: true, 21: true, 23: true, 26: true, 700: true, 701: true, 1700: true}
