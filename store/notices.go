package store

import (
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// hearing is the key under which the custom data of a connection has who hears its notices.
const hearing = "notices"

// HearNotices calls hear with each notice of a connection of the pools, until stop is called.
// Notices are dropped while nobody hears them.
func HearNotices(conn *pgx.Conn, hear func(*pgconn.Notice)) (stop func()) {
	custom := conn.PgConn().CustomData()
	custom[hearing] = hear
	return func() { delete(custom, hearing) }
}

func receiveNotice(conn *pgconn.PgConn, n *pgconn.Notice) {
	if hear, heard := conn.CustomData()[hearing].(func(*pgconn.Notice)); heard {
		hear(n)
	}
}
