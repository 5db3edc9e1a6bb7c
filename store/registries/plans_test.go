package registries_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/registries"
)

// The statistics of the tables know nothing of a registry that was just begun. With the plans that
// this made of joins, each of these took more than ten seconds.
func TestALargeRegistryIsFoundWhateverTheStatistics(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.db.Exec(`INSERT INTO mesh.resources (kind, name, spec) SELECT kind, 'service-' || i, replace(spec, '%', i::text)::jsonb FROM generate_series(1, 2000) i, (VALUES
		('ServiceEntry', '{"hosts": ["service-%.test"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "endpoints": [{"address": "10.1.0.1"}], "resolution": "STATIC"}'),
		('VirtualService', '{"hosts": ["service-%.test"], "http": [{"route": [{"destination": {"host": "service-%.test"}}]}]}')) kinds (kind, spec)`)
	for i := 0; i < 10000; i += 200 {
		var all []registries.Entry
		for j := range 200 {
			all = append(all, entry(fmt.Sprint("consul.s", i+j), "1", fmt.Sprint("s", i+j, ".example.com"), "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"))
		}
		b.writes(registries.Changes{Entries: all})
	}
	for range 2 {
		for query, rows := range map[string]int64{
			"SELECT count(*) FROM mesh.endpoints WHERE host = 's77.example.com' AND in_effect": 5,
			"SELECT count(*) FROM (SELECT * FROM mesh.services OFFSET 0) s":                    12000,
			"SELECT count(*) FROM (SELECT * FROM mesh.endpoints OFFSET 0) e":                   52000,
			"SELECT count(*) FROM mesh.problems":                                               0,
		} {
			began := time.Now()
			require.Equal(t, rows, storetest.Value[int64](b.db, query), query)
			require.Less(t, time.Since(began), 6*time.Second, query)
		}
		b.db.Exec("ANALYZE")
	}
}
