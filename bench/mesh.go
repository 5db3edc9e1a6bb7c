package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// meshRow is a row of mesh.resources.
type meshRow struct{ kind, name, spec string }

// meshRows returns a mesh of services, each of five related resources of different kinds.
func meshRows(resources int) []meshRow {
	rows := make([]meshRow, 0, resources)
	for i := 0; len(rows) < resources; i++ {
		name, host := fmt.Sprint("service-", i), fmt.Sprintf("service-%d.example.com", i)
		rows = append(rows,
			meshRow{"ServiceEntry", name, fmt.Sprintf(`{"hosts": ["%s"], "location": "MESH_INTERNAL", "resolution": "STATIC",
				"ports": [{"number": 8080, "name": "http", "protocol": "HTTP"}], "workloadSelector": {"labels": {"app": "%s"}}}`, host, name)},
			meshRow{"WorkloadEntry", name, fmt.Sprintf(`{"address": "10.%d.%d.%d", "labels": {"app": "%s", "version": "v1"},
				"network": "main", "weight": 1}`, i>>16, i>>8&255, i&255, name)},
			meshRow{"DestinationRule", name, fmt.Sprintf(`{"host": "%s", "trafficPolicy": {"loadBalancer": {"simple": "LEAST_REQUEST"},
				"outlierDetection": {"consecutive5xxErrors": 5, "interval": "10s"}},
				"subsets": [{"name": "v1", "labels": {"version": "v1"}}, {"name": "v2", "labels": {"version": "v2"}}]}`, host)},
			meshRow{"VirtualService", name, fmt.Sprintf(`{"hosts": ["%[1]s"], "http": [
				{"name": "beta", "match": [{"headers": {"x-beta": {"exact": "yes"}}}], "route": [{"destination": {"host": "%[1]s", "subset": "v2"}}]},
				{"name": "main", "route": [{"destination": {"host": "%[1]s", "subset": "v1"}, "weight": 90}, {"destination": {"host": "%[1]s", "subset": "v2"}, "weight": 10}],
				 "timeout": "3s", "retries": {"attempts": 2, "perTryTimeout": "1s", "retryOn": "5xx,reset"}}]}`, host)},
			meshRow{"AuthorizationPolicy", name, fmt.Sprintf(`{"selector": {"matchLabels": {"app": "%s"}}, "action": "ALLOW",
				"rules": [{"from": [{"source": {"namespaces": ["default"]}}], "to": [{"operation": {"methods": ["GET", "POST"], "paths": ["/api/*"]}}]}]}`, name)},
		)
	}
	return rows[:resources]
}

// mixedRows returns a mesh whose virtual services have one to ten routes.
func mixedRows(resources int) []meshRow {
	rows := meshRows(resources)
	services := 0
	for i := range rows {
		if rows[i].kind == "VirtualService" {
			rows[i].spec = withRoutes(services, 1+services%10)
			services++
		}
	}
	return rows
}

// loaded is how long a load took, and how much of that was COMMIT.
type loaded struct{ all, commit time.Duration }

// load runs write in one transaction.
func load(ctx context.Context, url string, write func(tx pgx.Tx) error) (l loaded, err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return l, err
	}
	defer conn.Close(ctx)
	start := time.Now()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return l, err
	}
	if err := write(tx); err != nil {
		return l, err
	}
	commit := time.Now()
	err = tx.Commit(ctx)
	return loaded{time.Since(start), time.Since(commit)}, err
}

// insertRows writes a thousand rows per statement.
func insertRows(ctx context.Context, rows []meshRow) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		for len(rows) > 0 {
			var kinds, names, specs []string
			n := min(len(rows), 1000)
			for _, r := range rows[:n] {
				kinds, names, specs = append(kinds, r.kind), append(names, r.name), append(specs, r.spec)
			}
			rows = rows[n:]
			if _, err := tx.Exec(ctx, `INSERT INTO mesh.resources (kind, name, spec)
				SELECT kind, name, spec::jsonb FROM unnest($1::text[], $2::text[], $3::text[]) AS r (kind, name, spec)`, kinds, names, specs); err != nil {
				return err
			}
		}
		return nil
	}
}

func copyRows(ctx context.Context, rows []meshRow) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := tx.CopyFrom(ctx, pgx.Identifier{"mesh", "resources"}, []string{"kind", "name", "spec"},
			pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) { return []any{rows[i].kind, rows[i].name, rows[i].spec}, nil }))
		return err
	}
}
