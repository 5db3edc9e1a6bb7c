package query_test

import (
	"io/fs"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/store/query"
)

func file(text string) fs.FS { return fstest.MapFS{"queries/some.sql": {Data: []byte(text)}} }

const both = `-- fragment: Columns
namespace, {{Rest}}

-- fragment: Rest
name

-- name: List
-- Everything that there is,
-- in no order.
SELECT {{Columns}}
FROM mesh.resources

-- name: Count
-- How much there is.
SELECT count(*) -- of all
FROM mesh.resources
`

func TestQueriesAreReadByName(t *testing.T) {
	t.Parallel()
	require.Equal(t, struct{ Count, List string }{
		"SELECT count(*) -- of all\nFROM mesh.resources", "SELECT namespace, name\nFROM mesh.resources",
	}, query.Read[struct{ Count, List string }](file(both)))

	all, err := query.Parse(file(both))
	require.NoError(t, err)
	require.Equal(t, "Everything that there is, in no order.", all["List"].Comment)
}

func TestFragmentsOfAnotherPackageAreFilledIn(t *testing.T) {
	t.Parallel()
	found := query.Read[struct{ One string }](file("-- name: One\nSELECT {{Columns}}"), file("-- fragment: Columns\na, b"))
	require.Equal(t, "SELECT a, b", found.One)
}

func TestAWrongNameEndsTheProgramAtItsStart(t *testing.T) {
	t.Parallel()
	require.PanicsWithValue(t, "there is no query named Other in the .sql files of struct { Count string; List string; Other string }",
		func() { query.Read[struct{ Count, List, Other string }](file(both)) })
	require.PanicsWithValue(t, "struct { Count string } has no field for the query List", func() { query.Read[struct{ Count string }](file(both)) })
	for text, says := range map[string]string{
		"-- name: A\nSELECT 1\n-- name: A\nSELECT 2":                             "queries/some.sql: there are two of the name A",
		"-- name: A\nSELECT 1\n-- fragment: A\n2":                                "queries/some.sql: there are two of the name A",
		"-- name: A\n-- only a comment\n":                                        "queries/some.sql: A is empty",
		"-- name: A\nSELECT {{B}}":                                               "A has {{B}} in it, which is no fragment that can be there",
		"-- fragment: B\n{{C}}\n-- fragment: C\n{{B}}\n-- name: A\nSELECT {{B}}": "C has {{B}} in it, which is no fragment that can be there",
	} {
		require.PanicsWithError(t, says, func() { query.Read[struct{ A string }](file(text)) })
	}
}
