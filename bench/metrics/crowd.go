package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// crowd are workloads that call services of one machine, each on a port of its own.
type crowd struct {
	mesh     *mesh
	callers  []*tls.Config
	services int
	first    int // port
}

// crowd makes the services and the callers.
func (m *mesh) crowd(ctx context.Context) (*crowd, error) {
	c := &crowd{mesh: m, services: m.options.services}
	for i := range m.options.callers {
		as, err := m.ca.caller(i)
		if err != nil {
			return nil, err
		}
		c.callers = append(c.callers, as)
	}
	var err error
	if c.first, err = freePorts(c.services); err != nil {
		return nil, err
	}
	if err := c.describe(ctx); err != nil {
		return nil, err
	}
	// The wait is for the services, too: they were there before.
	if err := m.apply(ctx, m.sidecar(ports{m.port, 1}, ports{c.first, c.services})+notKept, "--wait", "--wait-timeout", waitTimeout.String()); err != nil {
		return nil, fmt.Errorf("have the server take requests for %d services: %w", c.services, err)
	}
	return c, nil
}

// notKept has the client close its connections: those that are open would weigh more than what is
// counted, and a change of the server's listeners closes them.
const notKept = `---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: not-kept, namespace: payments}
spec: {host: '*.payments.mesh', trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 1}}}}
`

// scenarios are what is weighed. What counts for little comes first: an Envoy forgets no series.
func (c *crowd) scenarios() []*scenario {
	callers := len(c.callers)
	return []*scenario{
		{
			what: fmt.Sprintf("serves 1 service to %d callers", callers), sets: callers, machine: c.mesh.server,
			ask: func(ctx context.Context) error { return c.call(ctx, 1) },
		},
		{
			what: fmt.Sprintf("serves %d services to %d callers", c.services, callers), sets: c.services * callers, machine: c.mesh.server,
			ask: func(ctx context.Context) error { return c.call(ctx, c.services) },
		},
		{what: fmt.Sprintf("calls %d services", c.services), sets: c.services, machine: c.mesh.client, ask: c.callAll},
	}
}

// describe adds the services, on a port that the client has open already: all HTTP services of a
// port share a listener.
func (c *crowd) describe(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.mesh.postgres.URL())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, `INSERT INTO mesh.resources (kind, namespace, name, spec)
		SELECT 'ServiceEntry', 'payments', 'service-' || i, jsonb_build_object(
			'hosts', jsonb_build_array('service-' || i || '.payments.mesh'), 'location', 'MESH_INTERNAL', 'resolution', 'STATIC',
			'ports', jsonb_build_array(jsonb_build_object('number', $2::int, 'name', 'http', 'protocol', 'HTTP')),
			'endpoints', jsonb_build_array(jsonb_build_object('address', $3::text, 'serviceAccount', 'api', 'labels', jsonb_build_object('app', 'api', 'version', 'v1'),
				'ports', jsonb_build_object('http', $4::int + i))))
		FROM generate_series(0, $1::int - 1) i`, c.services, c.mesh.port, serverIP, c.first)
	return err
}

func serviceHost(i int) string { return fmt.Sprintf("service-%d.payments.mesh", i) }

// atOnce is how many requests are on their way at the same time.
const atOnce = 8

// call has each caller call the first services once.
func (c *crowd) call(ctx context.Context, services int) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, as := range c.callers {
		for i := range services {
			group.Go(func() error {
				return target{address: at(serverIP, c.first+i), host: serviceHost(i), tls: as}.once(ctx)
			})
		}
	}
	return group.Wait()
}

// callAll has the client's machine call each service once.
func (c *crowd) callAll(ctx context.Context) error {
	for i := range c.services {
		if err := (target{address: c.mesh.through().address, host: serviceHost(i)}).once(ctx); err != nil {
			return fmt.Errorf("%s: %w", serviceHost(i), err)
		}
	}
	return nil
}

// freePorts finds ports that follow one another at the server's address, below those that the
// kernel gives to connections.
func freePorts(n int) (first int, err error) {
	const lowest, highest, tries = 10_000, 20_000, 100
	for range tries {
		if first = lowest + rand.IntN(max(1, highest-lowest-n)); allFree(first, n) {
			return first, nil
		}
	}
	return 0, errors.New("there are not as many free ports in a row as services")
}

func allFree(first, n int) bool {
	for port := range n {
		l, err := net.Listen("tcp", at(serverIP, first+port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
