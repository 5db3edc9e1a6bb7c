package orms

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
)

const setHosts = "UPDATE mesh.virtual_services SET hosts = hosts || '{%s.example}' WHERE name = 'reviews'"

// What the page says that FOR UPDATE does is so: on a view nothing, and on the table what it does on any.
func TestForUpdate(t *testing.T) {
	t.Parallel()
	one := bookinfo(t)
	other := storetest.Connect(t, one.Conn.Config().ConnString())
	other.Exec("SET lock_timeout = '10ms'")
	const ofView = "SELECT 1 FROM mesh.virtual_services WHERE name = 'reviews' FOR UPDATE"
	const ofTable = "SELECT 1 FROM mesh.resources WHERE kind = 'VirtualService' AND name = 'reviews' FOR UPDATE"
	one.Exec("BEGIN")
	one.Exec(ofView)
	other.Exec(ofTable)
	one.Exec(ofTable)
	other.Exec(ofView)
	require.Equal(t, "55P03", other.Refused(ofTable).Code)
	one.Exec("ROLLBACK")
}

// At REPEATABLE READ nobody overwrites what he has not seen, in views of kinds and of parts.
func TestRepeatableRead(t *testing.T) {
	t.Parallel()
	one := bookinfo(t)
	other := storetest.Connect(t, one.Conn.Config().ConnString())
	for _, update := range []string{fmt.Sprintf(setHosts, "a"), "UPDATE mesh.route_destinations SET weight = weight + 1 WHERE virtual_service = 'reviews' AND subset = 'v1'"} {
		other.Exec("BEGIN ISOLATION LEVEL REPEATABLE READ")
		other.Exec("SELECT 1 FROM mesh.virtual_services")
		one.Exec(update)
		require.Equal(t, "40001", other.Refused(update).Code)
		other.Exec("ROLLBACK")
	}
}

// The other rows of the page's table.
func TestWhatToKnow(t *testing.T) {
	t.Parallel()
	mesh := bookinfo(t)
	const insert = "INSERT INTO mesh.service_entries (name, hosts, ports, resolution) VALUES ('reviews', '{a.example}', NULL, NULL) ON CONFLICT "
	require.Equal(t, "42P10", mesh.Refused(insert+"(namespace, name) DO UPDATE SET hosts = EXCLUDED.hosts").Code)
	require.Equal(t, "resource_exists_already", mesh.Refused(insert+"DO NOTHING").ConstraintName)
	for range 2 {
		mesh.Exec(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('DestinationRule', 'new', '{"host": "a.example"}')
			ON CONFLICT ON CONSTRAINT resource_exists_already DO UPDATE SET spec = EXCLUDED.spec`)
	}
	require.Equal(t, "MS003", mesh.Refused("UPDATE mesh.virtual_services SET generation = 7").Code)
	require.Equal(t, "MS003", mesh.Refused("UPDATE mesh.route_destinations SET route = 'x'").Code)

	for _, c := range []struct {
		change string
		rows   int64
	}{
		{"UPDATE mesh.virtual_services SET hosts = hosts", 2},
		{"UPDATE mesh.route_destinations SET weight = 50 WHERE route = 'everyone'", 2},
		{"UPDATE mesh.virtual_services SET hosts = '{a.example}' WHERE name = 'gone'", 0},
		{"DELETE FROM mesh.destination_rules WHERE name = 'new'", 1},
		{"DELETE FROM mesh.destination_rules WHERE name = 'new'", 0},
	} {
		tag, err := mesh.Conn.Exec(t.Context(), c.change)
		require.NoError(t, err)
		require.Equal(t, c.rows, tag.RowsAffected(), c.change)
	}

	copied, err := mesh.Conn.CopyFrom(context.Background(), pgx.Identifier{"mesh", "destination_rules"}, []string{"name", "host"},
		pgx.CopyFromRows([][]any{{"copied", "a.example"}, {"likewise", "b.example"}}))
	require.NoError(t, err)
	require.EqualValues(t, 2, copied)
	require.Equal(t, "b.example", storetest.Value[string](mesh, "SELECT host FROM mesh.destination_rules WHERE namespace = 'default' AND name = 'likewise'"))
}
