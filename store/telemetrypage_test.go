package store_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
)

// TestTheTelemetryPage writes what docs/telemetry.md has people write: resources, and SQL.
func TestTheTelemetryPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/telemetry.md")
	require.NoError(t, err)
	db := connect(t, pgtest.New(t))
	resources, statements := 0, 0
	for _, block := range blocksOf(string(page)) {
		switch {
		case strings.HasPrefix(block, "apiVersion:"):
			documents, err := kinds.Parse("docs/telemetry.md", []byte(block))
			require.NoError(t, err, block)
			for _, d := range documents {
				r := d.Resource
				db.Exec("INSERT INTO mesh.resources (api_group, kind, namespace, name, spec) VALUES ($1, $2, $3, $4, $5)", r.Kind.Group, r.Kind.Name, r.Namespace, r.Name, d.Spec)
				resources++
			}
		case strings.HasPrefix(block, "INSERT"), strings.HasPrefix(block, "SELECT"):
			db.Exec(block)
			statements++
		}
	}
	require.Equal(t, []int{4, 2}, []int{resources, statements}, "resources and statements of the page")
}

// blocksOf returns the indented blocks of a page.
func blocksOf(page string) (out []string) {
	var block []string
	for _, line := range append(strings.Split(page, "\n"), "end") {
		switch {
		case strings.HasPrefix(line, "    "):
			block = append(block, line[4:])
		case line != "" && len(block) > 0:
			out, block = append(out, strings.Join(block, "\n")), nil
		}
	}
	return out
}
