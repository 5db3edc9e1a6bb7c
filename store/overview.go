package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Overview is a summary of a database.
type Overview struct {
	Newest, Oldest Revision  // in history
	NewestTime     time.Time // zero if there is no revision
	Waiting        int       // changes that wait for a confirmation
	Kinds          []KindCount
}

// KindCount is the number of resources of a kind, which this program may not know.
type KindCount struct {
	Group, Kind string
	Resources   int64
}

const (
	overviewQuery = `SELECT newest, mesh.oldest_revision(), (SELECT time FROM mesh.revisions WHERE revision = newest),
		(SELECT count(*) FROM mesh.confirmations WHERE state = 'waiting') FROM mesh.newest_revision() AS newest`
	countQuery = `SELECT api_group, kind, count(*) FROM mesh.resources GROUP BY kind, api_group ORDER BY kind COLLATE "C", api_group COLLATE "C"`
)

// Overview summarises the database.
func (s *Store) Overview(ctx context.Context) (Overview, error) {
	var o Overview
	err := s.Reading(ctx, func(tx pgx.Tx) error {
		var newest *time.Time
		if err := tx.QueryRow(ctx, overviewQuery).Scan(&o.Newest, &o.Oldest, &newest, &o.Waiting); err != nil {
			return err
		}
		if newest != nil {
			o.NewestTime = *newest
		}
		rows, err := tx.Query(ctx, countQuery)
		if err != nil {
			return err
		}
		o.Kinds, err = pgx.CollectRows(rows, pgx.RowToStructByPos[KindCount])
		return err
	})
	return o, Explain("counting the resources", err)
}
