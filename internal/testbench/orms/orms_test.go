package orms

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
)

// Each program of the page prints what the page says, and its transaction is one revision with a name.
func TestPrograms(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/orms.md"))
	require.NoError(t, err)
	head, _, _ := strings.Cut(string(text), "\n## ")
	printed := parse(head).printed
	require.NotEmpty(t, printed)
	for _, title := range []string{"SQLAlchemy", "Django", "sqlc", "pgx"} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			if title != "pgx" {
				tools(t)
			}
			s, mesh := read(t, "orms.md", title), bookinfo(t)
			require.NotEmpty(t, s.files)
			dir := s.folder(t)
			if s.files["main.go"] != "" {
				module(t, dir)
			}
			require.Equal(t, printed, run(t, dir, mesh.Conn.Config().ConnString(), s.commands))
			require.Equal(t, []string{"Set up bookinfo", "Payments, and v2 for a tenth", ""},
				storetest.Collect[string](mesh, "SELECT message FROM mesh.revisions ORDER BY revision"))
			require.Equal(t, 3, storetest.Value[int](mesh, `SELECT count(*) FROM mesh.history WHERE kind IN ('VirtualService', 'ServiceEntry', 'DestinationRule')
				AND revision = CASE kind WHEN 'DestinationRule' THEN 3 ELSE 2 END`))
		})
	}
}

// module makes a folder a module of its own that has what pgmesh has, in the same versions.
func module(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		text = regexp.MustCompile(`(?m)^module .*$`).ReplaceAll(text, []byte("module example.com/shop"))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
}
