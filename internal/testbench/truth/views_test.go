package truth_test

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
)

// standing is what the views beside mesh.proxies say, and what it should be by mesh.proxies.
type standing struct {
	Concerned, Running, Refusing int // by mesh.status_of the thorn
	Here, Run                    int // by mesh.proxies
	Refusers                     []string
	Odd                          int // refusals that name something else than the thorn
	Uneven                       int // rollouts that do not add up
}

// readStanding reads refusals once: Postgres takes mesh.proxies for one row, and would read them for
// each proxy.
const readStanding = `
WITH refused AS MATERIALIZED (SELECT * FROM mesh.refusals)
SELECT s.concerned, s.running, s.refusing,
  (SELECT count(*) FROM mesh.proxies WHERE state <> 'away'),
  (SELECT count(*) FROM mesh.proxies p WHERE state <> 'away' AND runs >= s.observed_revision AND NOT EXISTS (SELECT FROM refused f WHERE f.proxy = p.proxy)),
  ARRAY(SELECT DISTINCT proxy FROM refused ORDER BY 1),
  (SELECT count(*) FROM refused WHERE envoy_resource NOT LIKE '%|thorn.%' OR (source_kind, source_namespace, source_name, revision) IS DISTINCT FROM ('ServiceEntry', 'home', 'thorn', s.observed_revision)),
  (SELECT count(*) FROM mesh.rollouts WHERE concerned <> ran + refused + to_answer + away OR least(ran, refused, to_answer, away) < 0 OR (first_at IS NULL) <> (ran = 0))
FROM mesh.status_of('ServiceEntry', $1, $2) s`

// viewsAgree returns an error if refusals, rollouts or the status of the thorn are not what the
// proxies and mesh.proxies say. All see the thorn.
func (o *observer) viewsAgree(ctx context.Context, states []state) error {
	rows, err := o.mesh.db.Query(ctx, readStanding, home, thorn)
	if err != nil {
		return err
	}
	s, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[standing])
	if err != nil {
		return err
	}
	for _, p := range states {
		if p.here && p.way == refusing && !slices.Contains(s.Refusers, p.id) {
			return fmt.Errorf("mesh.refusals does not have %s", p)
		}
	}
	if s.Odd > 0 || s.Uneven > 0 || s.Concerned != s.Here || s.Running != s.Run || s.Refusing != len(s.Refusers) {
		return fmt.Errorf("the views do not agree: %+v", s)
	}
	return nil
}
