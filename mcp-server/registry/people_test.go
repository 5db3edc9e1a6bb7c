package registry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// People change and delete the group and its entries while machines register. Neither may act on
// what the other is about to change.
func TestPeopleAndMachinesAtOnce(t *testing.T) {
	t.Parallel()
	b := begin(t)
	s := b.serve(patient)
	const machines, rounds = 8, 15
	var at errgroup.Group
	for i := range 3 {
		d := s.discovery(fmt.Sprint("eu-", i))
		at.Go(func() error {
			for n := range rounds {
				var changes []*machinev1.Change
				for m := range machines {
					changes = append(changes, here(fmt.Sprintf("m%d-%d", i, m), fmt.Sprintf("10.%d.0.%d", i, m+1), int64(n+1), func(c *machinev1.Change) {
						c.Service.Health = machinev1.Health(rand.N(3))
						c.Labels = map[string]string{"round": fmt.Sprint(n)}
					}))
				}
				if _, err := d.tell(changes...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for i := range 2 {
		conn, err := connectTo(b, b.conn.Config().Copy())
		require.NoError(t, err)
		at.Go(func() error { return meddle(t.Context(), conn, i, rounds) })
	}
	require.NoError(t, at.Wait())
	// Nobody writes any more: what is left must follow from the machines and the group, if there is
	// one.
	var want int
	if len(list[string](b, "SELECT name FROM mesh.workload_groups")) > 0 {
		want = 3 * machines
	}
	require.Len(t, b.entries(), want)
	require.Equal(t, want, one[int](b, `SELECT count(*)::int FROM mesh_internal.workload_instances i
		JOIN mesh.resources g ON g.kind = 'WorkloadGroup' AND g.name = i.workload_group CROSS JOIN LATERAL mesh_internal.rendered_workload(i, g.spec) e
		JOIN mesh.resources r ON r.kind = 'WorkloadEntry' AND r.name = i.entry WHERE (r.spec, r.labels, r.annotations) = (e.spec, e.labels, e.annotations)`))
}

// meddle makes changes as people do, and retries those that conflict with the machines.
func meddle(ctx context.Context, conn *pgx.Conn, i, rounds int) error {
	for n := range rounds {
		statements := []string{
			fmt.Sprintf(`UPDATE mesh.workload_groups SET template = '{"serviceAccount": "web", "ports": {"http": %d}}' WHERE name = 'web'`, 8000+n),
			"DELETE FROM mesh.workload_groups WHERE name = 'web'",
			`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('WorkloadGroup', 'shop', 'web', '` + web + `') ON CONFLICT DO NOTHING`,
			fmt.Sprintf("DELETE FROM mesh.workload_entries WHERE name = 'web-10.%d.0.1'", i),
			fmt.Sprintf("UPDATE mesh.workload_entries SET address = '10.9.9.9' WHERE name LIKE 'web-10.%d.%%'", i),
		}
		for {
			_, err := conn.Exec(ctx, statements[n%len(statements)])
			if pg, ok := errors.AsType[*pgconn.PgError](err); ok && (pg.Code == "40P01" || pg.Code == "40001") {
				continue
			}
			if err != nil {
				return err
			}
			break
		}
	}
	return nil
}

// A transaction left open that holds an entry blocks that entry and no other.
func TestAnEntryInSomebodysHandsWaitsAlone(t *testing.T) {
	t.Parallel()
	b := begin(t)
	d := b.serve(patient).discovery("eu")
	all := []*machinev1.Change{here("m1", "10.0.0.1", 1), here("m2", "10.0.0.2", 1), here("m3", "10.0.0.3", 1)}
	_, err := d.tell(all...)
	require.NoError(t, err)
	b.exec("BEGIN; UPDATE mesh.workload_entries SET address = '10.9.9.9' WHERE name = 'web-10.0.0.2'")
	for _, c := range all {
		c.Service.Health = machinev1.Health_HEALTH_UNHEALTHY
	}
	outcomes, err := d.tell(all...)
	require.NoError(t, err)
	require.Empty(t, outcomes[0].GetRefused())
	require.Contains(t, outcomes[1].GetRefused(), "somebody is changing its WorkloadEntry shop/web-10.0.0.2, in a transaction that has not ended")
	require.Empty(t, outcomes[2].GetRefused())
	b.exec("ROLLBACK")
	const unhealthy = "SELECT name FROM mesh.workload_entries WHERE annotations ->> 'mesh.pgmesh.io/health' = 'unhealthy' ORDER BY name"
	require.Equal(t, []string{"web-10.0.0.1", "web-10.0.0.3"}, list[string](b, unhealthy))
	require.Empty(t, d.told(all[1]).GetRefused())
	require.Len(t, list[string](b, unhealthy), 3)

	b.exec("BEGIN; INSERT INTO mesh.workload_entries (namespace, name, address) VALUES ('shop', 'web-10.0.0.4', '10.9.9.9')")
	outcomes, err = d.tell(here("m4", "10.0.0.4", 1), here("m5", "10.0.0.5", 1))
	require.NoError(t, err)
	require.Contains(t, outcomes[0].GetRefused(), "another transaction has its WorkloadEntry or its WorkloadGroup in hand")
	require.Equal(t, "web-10.0.0.5", outcomes[1].GetEntry())
	b.exec("COMMIT")
	require.Contains(t, d.told(here("m4", "10.0.0.4", 1)).GetRefused(), "somebody has written a WorkloadEntry shop/web-10.0.0.4")
}
