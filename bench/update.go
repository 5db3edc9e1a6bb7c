package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// benchUpdates measures one UPDATE of a VirtualService with ten routes, validated and recorded. It
// alternates with the same UPDATE of a bare table and a NOTIFY.
func benchUpdates(ctx context.Context, o options) error {
	for _, fsync := range []string{"on", "off"} {
		if err := benchUpdate(ctx, o, fsync); err != nil {
			return err
		}
	}
	return nil
}

const updated = 200 // virtual services; each UPDATE takes the next

func benchUpdate(ctx context.Context, o options, fsync string) error {
	server, err := startDatabase(ctx, map[string]string{"fsync": fsync})
	if err != nil {
		return err
	}
	defer server.Stop()
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := defineUpdated(ctx, conn); err != nil {
		return err
	}
	var product, floor []time.Duration
	start := usage.Now()
	for i := range o.warmup + 2*o.changes {
		p, err := timeUpdate(ctx, conn, "UPDATE mesh.resources "+newWeight, i)
		if err != nil {
			return err
		}
		f, err := timeUpdate(ctx, conn, "WITH updated AS (UPDATE bench_bare "+newWeight+" RETURNING 1) SELECT pg_notify('bench_bare', $1::text) FROM updated", i)
		if err != nil {
			return err
		}
		if i >= o.warmup {
			product, floor = append(product, p), append(floor, f)
		}
	}
	slices.Sort(product)
	slices.Sort(floor)
	t := newTimesTable(fmt.Sprintf("One UPDATE of a VirtualService with 10 routes, committed, fsync %s, %d of each in turns", fsync, len(product)))
	t.line("pgmesh", product)
	t.line("floor: a bare table and a NOTIFY", floor)
	t.Flush()
	more := timing.Percentile(product, 50) - timing.Percentile(floor, 50)
	ratio := float64(timing.Percentile(product, 50)) / float64(timing.Percentile(floor, 50))
	fmt.Fprintf(os.Stdout, "\np50 is %.2f times the floor's, or %s more (aim: within 2 times or 1 ms, %s)\n", ratio, millis(more),
		met(ratio <= 2 || more <= time.Millisecond))
	meanwhile(start)
	return nil
}

// newWeight takes the number of the change as a text.
const newWeight = `SET spec = jsonb_set(spec, ARRAY['http', ($1::text::int % 10)::text, 'route', '0', 'weight'], to_jsonb(($1::text::int * 7 + $1::text::int / 200 * 3) % 50))
	WHERE kind = 'VirtualService' AND api_group = 'networking.istio.io' AND namespace = 'default' AND name = 'bench-' || $1::text::int % 200`

func timeUpdate(ctx context.Context, conn *pgx.Conn, sql string, number int) (time.Duration, error) {
	start := time.Now()
	_, err := conn.Exec(ctx, sql, strconv.Itoa(number))
	return time.Since(start), err
}

// defineUpdated fills mesh.resources, and a bare table with the same columns and index.
func defineUpdated(ctx context.Context, conn *pgx.Conn) error {
	var names, specs []string
	for i := range updated {
		names, specs = append(names, fmt.Sprint("bench-", i)), append(specs, withRoutes(i, 10))
	}
	if _, err := conn.Exec(ctx, `INSERT INTO mesh.resources (kind, name, spec)
		SELECT 'VirtualService', name, spec::jsonb FROM unnest($1::text[], $2::text[]) AS r (name, spec)`, names, specs); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, `CREATE TABLE bench_bare (LIKE mesh.resources INCLUDING DEFAULTS, PRIMARY KEY (kind, api_group, namespace, name)) WITH (fillfactor = 85);
		INSERT INTO bench_bare SELECT * FROM mesh.resources; ANALYZE`)
	return err
}

// withRoutes returns a VirtualService of a service.
func withRoutes(service, count int) string {
	routes := make([]string, count)
	for i := range routes {
		routes[i] = fmt.Sprintf(`{"name": "route-%[2]d",
			"match": [{"uri": {"prefix": "/api/v%[2]d"}, "headers": {"x-user": {"exact": "user-%[2]d"}}}],
			"route": [{"destination": {"host": "service-%[1]d.example.com", "subset": "v1", "port": {"number": 8080}}, "weight": 80},
				{"destination": {"host": "service-%[1]d.example.com", "subset": "v2", "port": {"number": 8080}}, "weight": 20}],
			"timeout": "5s", "retries": {"attempts": 3, "perTryTimeout": "2s"}}`, service, i)
	}
	return fmt.Sprintf(`{"hosts": ["service-%d.example.com"], "http": [%s]}`, service, strings.Join(routes, ", "))
}
