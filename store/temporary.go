package store

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// Temporary reports whether an operation may succeed later by itself: the database is away,
// starting, stopping or full. A wrong password, a missing database or an old schema is not
// temporary.
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

// lost reports whether there is no connection to the database.
func lost(err error) bool {
	var connect *pgconn.ConnectError
	var network *net.OpError
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false // the caller gave up, which says nothing about the database
	}
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err)
}
