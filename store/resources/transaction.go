package resources

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store/problems"
)

// Transact runs do in a transaction that records its origin. It returns the result without
// outcomes.
func (s *Store) Transact(ctx context.Context, a Apply, do func(pgx.Tx) error) (applied Applied, err error) {
	conn, err := s.db.Pool().Acquire(ctx)
	if err != nil {
		return Applied{}, err
	}
	defer conn.Release()
	heard := problems.CollectWarnings(conn.Conn())
	defer func() { applied.Warnings, applied.Omitted = heard.End() }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return Applied{}, err
	}
	defer tx.Rollback(context.WithoutCancel(ctx))
	_, err = tx.Exec(ctx, sql.Begin, a.Author, a.Message, a.Application, onOff(a.Limited), a.Reading.Setting())
	if err != nil {
		return Applied{}, err
	}
	if err := do(tx); err != nil {
		return Applied{}, err
	}
	var id *int64
	if err := tx.QueryRow(ctx, sql.RunningTransaction).Scan(&id); err != nil {
		return Applied{}, err
	}
	if a.DryRun { // a commit would examine the change
		_, err = tx.Exec(ctx, sql.ExamineChange, id)
		return Applied{}, err
	}
	if a.Confirm > 0 && id != nil {
		if _, err := tx.Exec(ctx, sql.CommitConfirmed, a.Confirm); err != nil {
			return Applied{}, err
		}
	}
	if err := tx.Commit(ctx); err != nil || id == nil {
		return Applied{}, err
	}
	if err := conn.QueryRow(ctx, sql.CommittedRevision, *id).Scan(&applied.Revision); err != nil {
		return Applied{}, err
	}
	if a.Confirm > 0 && applied.Revision > 0 {
		err = conn.QueryRow(ctx, sql.Deadline, applied.Revision).Scan(&applied.Deadline)
	}
	return applied, err
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
