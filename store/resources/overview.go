package resources

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
)

// Overview is a summary of a database.
type Overview struct {
	Newest, Oldest store.Revision // in history
	NewestTime     time.Time      // zero if there is no revision
	Waiting        int            // changes that wait for a confirmation
	Kinds          []KindCount
}

// KindCount is the number of resources of a kind, which this program may not know.
type KindCount struct {
	Group, Kind string
	Resources   int64
}

// Overview summarises the database.
func (s *Store) Overview(ctx context.Context) (Overview, error) {
	var o Overview
	err := s.db.Reading(ctx, func(tx pgx.Tx) error {
		var newest *time.Time
		if err := tx.QueryRow(ctx, sql.Overview).Scan(&o.Newest, &o.Oldest, &newest, &o.Waiting); err != nil {
			return err
		}
		if newest != nil {
			o.NewestTime = *newest
		}
		rows, err := tx.Query(ctx, sql.CountKinds)
		if err != nil {
			return err
		}
		o.Kinds, err = pgx.CollectRows(rows, pgx.RowToStructByPos[KindCount])
		return err
	})
	return o, store.Explain("counting the resources", err)
}
