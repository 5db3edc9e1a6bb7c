package serve_test

import (
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
)

// A server whose schema somebody has changed says so, and is ready.
func TestAServerTellsOfAChangedSchema(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	storetest.Connect(t, url).Exec("ALTER TABLE mesh.resources ADD COLUMN ticket text")
	launch(t, serve.Options{Database: url}).ready(200, "somebody has changed the schema of the database: column mesh.resources.ticket (mesh.check_installation() says how, and what to do)")
}
