package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// settleTimeout is how long after the grace period late changes may take.
const settleTimeout = 30 * time.Second

// compare waits for the grace period, and returns what differs from the expected state.
func (c *control) compare(ctx context.Context, o *options, f *fleet) (wrong []string, err error) {
	wait.For(ctx, o.grace)
	for until := time.Now().Add(settleTimeout); ; {
		if wrong, err = c.wrong(ctx, f); err != nil || len(wrong) == 0 || time.Now().After(until) {
			return wrong, err
		}
		if !wait.For(ctx, time.Second) {
			return wrong, ctx.Err()
		}
	}
}

func (c *control) wrong(ctx context.Context, f *fleet) (wrong []string, err error) {
	rows, err := c.db.Query(ctx, `SELECT name, coalesce(annotations ->> 'mesh.pgmesh.io/machine', ''), spec ->> 'address', NOT coalesce(annotations ->> 'mesh.pgmesh.io/health', '') LIKE 'u%'
		FROM mesh.resources WHERE kind = 'WorkloadEntry' AND namespace = $1`, namespace)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	wanted := f.wanted()
	for rows.Next() {
		var name, id, address string
		var well bool
		if err := rows.Scan(&name, &id, &address, &well); err != nil {
			return nil, err
		}
		is, should := standing(address, well), wanted[id]
		if is != should {
			wrong = append(wrong, fmt.Sprintf("%s of %s is %s, and should be %q", name, id, is, should))
		}
		delete(wanted, id) // so that a second entry for it is reported
	}
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		wrong = append(wrong, fmt.Sprintf("%s has no entry, and should have %s", id, wanted[id]))
	}
	return wrong, rows.Err()
}
