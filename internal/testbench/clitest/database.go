package clitest

import (
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/store"
)

// Store opens the database as servers do.
func (m *Mesh) Store() *store.Store {
	m.t.Helper()
	s, err := store.Open(m.t.Context(), m.Database, store.Options{})
	require.NoError(m.t, err)
	m.t.Cleanup(s.Close)
	return s
}

// Execute runs SQL like psql.
func (m *Mesh) Execute(sql string) {
	m.t.Helper()
	conn, err := pgx.Connect(m.t.Context(), m.Database)
	require.NoError(m.t, err)
	_, err = conn.Exec(m.t.Context(), sql)
	require.NoError(m.t, err)
	require.NoError(m.t, conn.Close(m.t.Context()))
}

// Query runs SQL that returns one value.
func (m *Mesh) Query(sql string, into any) {
	m.t.Helper()
	conn, err := pgx.Connect(m.t.Context(), m.Database)
	require.NoError(m.t, err)
	require.NoError(m.t, conn.QueryRow(m.t.Context(), sql).Scan(into))
	require.NoError(m.t, conn.Close(m.t.Context()))
}

// Stored counts the resources.
func (m *Mesh) Stored() (n int) {
	m.t.Helper()
	m.Query("SELECT count(*) FROM mesh.resources", &n)
	return n
}

// Everything returns the stored resources without revision numbers and times.
func (m *Mesh) Everything() (text string) {
	m.t.Helper()
	m.Query(`SELECT coalesce(string_agg((to_jsonb(r) - '{xid,generation,created_at,updated_at,rules}'::text[])::text, E'\n' ORDER BY kind, api_group, namespace, name), '')
		FROM mesh.resources r`, &text)
	return text
}
