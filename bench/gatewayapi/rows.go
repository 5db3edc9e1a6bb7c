package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/bench/host"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/store/embedded"
	"github.com/pgmesh/pgmesh/store/migration"
)

// rows are routes in Postgres.
type rows struct {
	conn     *pgx.Conn
	listener *pgx.Conn
}

const floorChannel = "pgmesh_bench_floor"

func startRows(h *host.Host, bin, dir string) (origin, *stack.Stack, error) {
	database, err := embedded.Start(h.Context(), embedded.Options{})
	if err != nil {
		return nil, nil, err
	}
	h.Cleanup(database.Stop)
	if err := migration.Up(h.Context(), database.URL()); err != nil {
		return nil, nil, err
	}
	r := &rows{}
	for _, conn := range []**pgx.Conn{&r.conn, &r.listener} {
		if *conn, err = pgx.Connect(h.Context(), database.URL()); err != nil {
			return nil, nil, err
		}
		h.Cleanup(func() { (*conn).Close(context.WithoutCancel(h.Context())) })
	}
	if _, err := r.listener.Exec(h.Context(), "LISTEN "+floorChannel+"; CREATE TABLE bench_floor (id int PRIMARY KEY, spec jsonb)"); err != nil {
		return nil, nil, err
	}
	s, err := stack.New(bin, dir, database.URL())
	return r, s, err
}

func (r *rows) prepare(ctx context.Context, port int, backends []endpoint) error {
	if err := r.put(ctx, group, "Gateway", gateway, gatewaySpec(port)); err != nil {
		return err
	}
	for _, b := range backends {
		if err := r.put(ctx, "networking.istio.io", "ServiceEntry", b.name, object{
			"hosts": []string{b.name + "." + namespace + ".svc.cluster.local"}, "location": "MESH_INTERNAL", "resolution": "STATIC",
			"ports":     []object{{"name": "http", "number": servicePort, "protocol": "HTTP"}},
			"endpoints": []object{{"address": b.address, "ports": object{"http": b.port}}},
		}); err != nil {
			return err
		}
	}
	return nil
}

func (r *rows) put(ctx context.Context, group, kind, name string, spec object) error {
	_, err := r.conn.Exec(ctx, `INSERT INTO mesh.resources (api_group, kind, namespace, name, spec) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (kind, api_group, namespace, name) DO UPDATE SET spec = EXCLUDED.spec`, group, kind, namespace, name, spec)
	return err
}

func (r *rows) write(ctx context.Context, one route) error {
	return r.put(ctx, group, "HTTPRoute", one.name, one.spec)
}

func (r *rows) writeAll(ctx context.Context, all []route) error {
	names, specs := make([]string, len(all)), make([]string, len(all))
	for i, one := range all {
		text, err := json.Marshal(one.spec)
		if err != nil {
			return err
		}
		names[i], specs[i] = one.name, string(text)
	}
	_, err := r.conn.Exec(ctx, `INSERT INTO mesh.resources (api_group, kind, namespace, name, spec)
		SELECT $1, 'HTTPRoute', $2, name, spec::jsonb FROM unnest($3::text[], $4::text[]) AS r (name, spec)`, group, namespace, names, specs)
	return err
}

// floor writes as large a row to a bare table, and has another session notified of it.
func (r *rows) floor(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	if _, err := r.conn.Exec(ctx, `WITH w AS (INSERT INTO bench_floor VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET spec = EXCLUDED.spec RETURNING id)
		SELECT pg_notify('`+floorChannel+`', id::text) FROM w`, probed(1).spec); err != nil {
		return 0, err
	}
	_, err := r.listener.WaitForNotification(ctx)
	return time.Since(begun), err
}

func (r *rows) attached(ctx context.Context) (n counted, err error) {
	n.at = time.Now() // a query sees what there was when it began
	err = r.conn.QueryRow(ctx, `SELECT coalesce(sum((l ->> 'attachedRoutes')::int), 0)
		FROM mesh.status_of('Gateway.gateway.networking.k8s.io', $1, $2) s, jsonb_array_elements(s.status -> 'listeners') l`, namespace, gateway).Scan(&n.routes)
	return n, err
}

func (r *rows) stated(ctx context.Context) (n counted, err error) {
	n.at = time.Now()
	err = r.conn.QueryRow(ctx, `SELECT count(*) FROM mesh.resource_status WHERE kind = 'HTTPRoute'
		AND status @? '$.parents[*].conditions[*] ? (@.type == "Accepted" && @.status == "True")'
		AND conditions @? '$[*] ? (@.type == "Programmed" && @.status == "True")'`).Scan(&n.routes)
	return n, err
}
