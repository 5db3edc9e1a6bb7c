package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// The README's steps must work with the demo as it says.
func TestReadmeSteps(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	share, mistake := inReadme(t, readme, `(?s)psql .*?<<'SQL'\n(.*?)\n    SQL`), inReadme(t, readme, `psql .* -c "(.*)"`)
	wait, proxies := inReadme(t, readme, `-c '(SELECT mesh.wait.*?)'`), inReadme(t, readme, `-c '(SELECT proxy.*?)'`)

	s := newScene(t)
	demo := s.start(t)
	demo.await(t, "Ctrl-C ends everything.")
	url, err := os.ReadFile(filepath.Join(s.data, "database-url"))
	require.NoError(t, err)
	db, err := pgx.Connect(t.Context(), strings.TrimSpace(string(url)))
	require.NoError(t, err)
	defer db.Close(context.Background())

	_, err = db.Exec(t.Context(), share)
	require.NoError(t, err)
	var running int
	require.NoError(t, db.QueryRow(t.Context(), wait).Scan(&running))
	require.Equal(t, 1, running)
	var proxy, state string
	var runs int64
	require.NoError(t, db.QueryRow(t.Context(), proxies).Scan(&proxy, &state, &runs))
	require.Equal(t, "synced", state)
	_, err = db.Exec(t.Context(), mistake)
	var refused *pgconn.PgError
	require.ErrorAs(t, err, &refused, "the database refuses the mistake")
	require.Equal(t, []string{"23514", "VirtualService default/hello: spec.http[0].route: no destination has a weight"}, []string{refused.Code, refused.Message})
	found, err := readWeights(t.Context(), db)
	require.NoError(t, err)
	require.Equal(t, weights{67, 33}, found, "nothing changes for anyone")
	s.interrupt(t, demo)
}

func inReadme(t *testing.T, readme []byte, pattern string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindSubmatch(readme)
	require.Len(t, found, 2, "the README has %s", pattern)
	return string(found[1])
}
