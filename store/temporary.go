package store

import (
	"errors"

	"github.com/jackc/pgx/v5/pgconn"
)

// Temporary tells whether what failed may work later without anybody doing anything about it here: the database is away, starting,
// stopping or full. A wrong password, a missing database or an old schema are not.
func Temporary(err error) bool {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code[:2] {
		case "08", "53", "57", "40": // connection, resources, operator, transaction
			return true
		}
		return false
	}
	var connect *pgconn.ConnectError
	return errors.As(err, &connect) || errors.Is(err, ErrConflict)
}
