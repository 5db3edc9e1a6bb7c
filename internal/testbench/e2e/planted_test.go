package e2e

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// showing is everything that a mesh shows anybody: logs, errors, pages, metrics, dumps, the output
// of commands, and the rows of all tables.
func (m *secureMesh) showing(members ...*stack.Program) map[string]string {
	m.t.Helper()
	shown := map[string]string{}
	for name, p := range map[string]*stack.Program{"mcp-server": m.MCPServer, "discovery": m.Discovery} {
		shown["log of "+name] = p.Log()
		for _, path := range m.pages(p) {
			shown[name+path] = m.page(p.HTTP(), path)
		}
	}
	for _, p := range members {
		shown["log of an agent at "+p.Admin] = p.Log()
		for _, path := range []string{"/config_dump?include_eds", "/certs", "/stats", "/clusters"} {
			shown["Envoy's "+path] += m.page(p.Admin, path)
		}
	}
	for _, args := range []string{"identity list", "identity log", "token list", "authority show", "proxy-status", "problems"} {
		for _, form := range []string{"wide", "yaml"} {
			out, err := m.Client(m.t.Context(), "", append(strings.Fields(args), "-o", form)...)
			if err != nil {
				out, err = m.Client(m.t.Context(), "", strings.Fields(args)...)
			}
			require.NoError(m.t, err, out)
			shown["mcp-client "+args+" -o "+form] = out
		}
	}
	maps.Copy(shown, m.rows())
	return shown
}

func (m *secureMesh) page(address, path string) string {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), longestWait)
	defer cancel()
	a, err := sendURL(ctx, m.client, "http://"+address+path, request{})
	require.NoError(m.t, err)
	return a.body
}

// pages are those that a program lists.
func (m *secureMesh) pages(p *stack.Program) (paths []string) {
	m.t.Helper()
	var index []struct {
		Path string `json:"path"`
	}
	text := m.page(p.HTTP(), "/debug")
	require.NoError(m.t, json.Unmarshal([]byte(text), &index), text)
	for _, page := range index {
		paths = append(paths, page.Path)
	}
	require.Contains(m.t, paths, "/metrics")
	return paths
}

// rows are those of all tables of the mesh.
func (m *secureMesh) rows() map[string]string {
	m.t.Helper()
	ctx := m.t.Context()
	found, err := m.db.Query(ctx, `SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname IN ('mesh', 'mesh_internal')`)
	require.NoError(m.t, err)
	tables, err := pgx.CollectRows(found, pgx.RowTo[string])
	require.NoError(m.t, err)
	require.Contains(m.t, tables, "mesh_internal.join_token_hashes")
	all := map[string]string{}
	for _, table := range tables {
		var text *string
		require.NoError(m.t, m.db.QueryRow(ctx, "SELECT string_agg(t::text, E'\\n') FROM "+table+" t").Scan(&text), table)
		if text != nil {
			all[table] = *text
		}
	}
	return all
}

// essence is the secret part of a secret: a PEM file without its first and last lines.
func essence(secret string) string {
	if lines := strings.Split(strings.TrimRight(secret, "\n"), "\n"); len(lines) > 2 {
		return strings.TrimSpace(lines[1])
	}
	return strings.TrimSpace(secret)
}

// hides checks that nothing shown contains the secrets that were used.
func (m *secureMesh) hides(secrets map[string]string, members ...*stack.Program) {
	m.t.Helper()
	shown := m.showing(members...)
	require.Greater(m.t, len(shown), 20)
	for what, secret := range secrets {
		part := essence(secret)
		require.Greater(m.t, len(part), 15, what)
		for where, text := range shown {
			if strings.Contains(text, part) {
				m.t.Errorf("%s is shown in %s", what, where)
			}
		}
	}
}

// keptSecrets are the keys and tokens that the programs keep in files.
func (m *secureMesh) keptSecrets(names ...string) map[string]string {
	m.t.Helper()
	secrets := map[string]string{}
	for _, name := range names {
		files, err := os.ReadDir(m.State(name))
		require.NoError(m.t, err)
		for _, f := range files {
			if !f.Type().IsRegular() {
				continue // sockets, and folders without keys
			}
			content := string(read(m.t, m.State(name), f.Name()))
			if _, key, found := strings.Cut(content, "-----BEGIN PRIVATE KEY-----\n"); found {
				secrets["the key of "+name+" in "+f.Name()] = "\n" + key
			}
		}
		require.NotEmpty(m.t, secrets, name)
	}
	for what, path := range m.SecretFiles() {
		content, err := os.ReadFile(path)
		require.NoError(m.t, err)
		secrets[what] = string(content)
	}
	return secrets
}
