package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
)

// changedResources is how many resources change between the compared revisions.
const changedResources = 10_000

// benchDiff compares revisions that differ in many resources. The floor reads each pair of
// documents and compares them.
func benchDiff(ctx context.Context, _ options) error {
	server, err := startDatabase(ctx, nil)
	if err != nil {
		return err
	}
	defer server.Stop()
	rows := slices.DeleteFunc(mixedRows(5*changedResources), func(r meshRow) bool { return r.kind != "VirtualService" })
	if _, err := load(ctx, server.URL(), insertRows(ctx, rows)); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, server.URL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, sql := range []string{
		`UPDATE mesh.resources SET spec = jsonb_set(spec, '{http,0,timeout}', '"9s"')`,
		`UPDATE mesh.resources SET spec = jsonb_set(spec, '{http}', (SELECT jsonb_agg(route || '{"timeout": "1s", "retries": {"attempts": 7}}' ORDER BY n)
			FROM jsonb_array_elements(spec -> 'http') WITH ORDINALITY r (route, n)))`,
		"VACUUM ANALYZE",
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stdout, "\nmesh.diff of two revisions, %d virtual services of one to ten routes changed, medians of 5\n\n", changedResources)
	start := usage.Now()
	for _, what := range []struct {
		name string
		from int
	}{{"one field of each", 1}, {"all routes of each", 2}} {
		fields, took, err := timed(ctx, conn, "SELECT count(*) FROM mesh.diff($1::bigint, $1 + 1)", what.from)
		if err != nil {
			return err
		}
		_, floor, err := timed(ctx, conn, `SELECT count(*) FROM mesh_internal.changes c JOIN mesh_internal.transactions t ON t.id = c.transaction_id
			WHERE t.revision = $1::bigint + 1 AND c.before_spec IS DISTINCT FROM c.after_spec`, what.from)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "%-20s %7d rows in %5.0f ms, floor %5.0f ms, %.1f times as long\n", what.name, fields,
			float64(took.Milliseconds()), float64(floor.Milliseconds()), float64(took)/float64(floor))
	}
	meanwhile(start)
	return nil
}

// timed runs a query several times and returns its median time.
func timed(ctx context.Context, conn *pgx.Conn, sql string, args ...any) (answer int, median time.Duration, err error) {
	var times []time.Duration
	for range 5 {
		start := time.Now()
		if err := conn.QueryRow(ctx, sql, args...).Scan(&answer); err != nil {
			return 0, 0, err
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return answer, timing.Percentile(times, 50), nil
}
