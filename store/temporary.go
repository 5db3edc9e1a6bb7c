package store

import (
	"context"
	"errors"
	"io"
	"net"

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
	return lost(err) || errors.Is(err, ErrConflict) || errors.As(err, new(*BlockedError))
}

// lost tells whether there is no connection to the database, or none any more.
func lost(err error) bool {
	var connect *pgconn.ConnectError
	var network *net.OpError
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false // nobody waits any more, and what the database does is not known
	}
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}
