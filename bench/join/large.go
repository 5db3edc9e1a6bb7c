package main

import (
	"context"
	"fmt"
	"os"

	"github.com/jackc/pgx/v5"
)

// measureLarge measures a machine that joins when the mesh has many more services. A first,
// unmeasured machine gives discovery time to process them.
func (m *mesh) measureLarge(ctx context.Context) (*member, error) {
	if err := m.grow(ctx, m.options.services); err != nil {
		return nil, err
	}
	fmt.Fprintf(os.Stderr, "the mesh has %d services more …\n", m.options.services)
	if _, err := m.measure(ctx, "web-before"); err != nil {
		return nil, err
	}
	j, err := m.measure(ctx, "web-large")
	if err == nil && j.clusters <= m.options.services {
		err = fmt.Errorf("the machine's Envoy has %d clusters, and the mesh %d services", j.clusters, m.options.services+1)
	}
	return j, err
}

// grow adds services to the mesh, on a port that clients have open already: all HTTP services of a
// port share a listener.
func (m *mesh) grow(ctx context.Context, services int) error {
	conn, err := pgx.Connect(ctx, m.postgres.URL())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, `INSERT INTO mesh.resources (kind, namespace, name, spec)
		SELECT 'ServiceEntry', 'many', 'service-' || i, jsonb_build_object(
			'hosts', jsonb_build_array('service-' || i || '.many.mesh'), 'location', 'MESH_INTERNAL', 'resolution', 'STATIC',
			'ports', jsonb_build_array(jsonb_build_object('number', $2::int, 'name', 'http', 'protocol', 'HTTP')),
			'endpoints', (SELECT jsonb_agg(jsonb_build_object('address', '10.' || i / 250 || '.' || i % 250 || '.' || e)) FROM generate_series(1, $3::int) e))
		FROM generate_series(1, $1::int) i`, services, m.port, endpoints)
	return err
}

// endpoints is how many endpoints each added service has.
const endpoints = 5
