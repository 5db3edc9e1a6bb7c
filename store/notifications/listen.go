// Package notifications hears of what the database notifies programs of. Notifications can be lost
// or left out, so it says how often to ask as well.
package notifications

import (
	"context"
	"embed"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/query"
)

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	IsStandby, ListenForRevisions, ListenForServers, QueueIsFilling string
}](files)

// ListenForRevisions subscribes to new revisions, unless the database is a hot standby, which would
// refuse.
func ListenForRevisions(ctx context.Context, conn *pgx.Conn) (standby bool, err error) {
	return listen(ctx, conn, sql.ListenForRevisions)
}

// ListenForServers likewise subscribes to changes of tables that servers use.
func ListenForServers(ctx context.Context, conn *pgx.Conn) (standby bool, err error) {
	return listen(ctx, conn, sql.ListenForServers)
}

func listen(ctx context.Context, conn *pgx.Conn, subscribe string) (standby bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	if err := conn.QueryRow(ctx, sql.IsStandby).Scan(&standby); err != nil || standby {
		return standby, err
	}
	_, err = conn.Exec(ctx, subscribe)
	return false, err
}

// SpuriousPause is how long to wait after a notification that led to nothing new before the next
// check, so that whoever sends many does not cause a query each.
const SpuriousPause = 10 * time.Millisecond
