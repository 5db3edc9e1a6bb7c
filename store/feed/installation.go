package feed

import (
	"context"
	"net"
	"slices"
	"strconv"

	"github.com/pgmesh/pgmesh/store"
)

// Installation returns the id of the feed's mesh. It is the same on standbys, after a failover, and
// in a copy or restored dump, and different for databases that were created separately.
func (f *Feed) Installation(ctx context.Context) (id string, err error) {
	conn, err := f.connect(ctx)
	if err == nil {
		defer store.CloseConn(conn)
		ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
		defer cancel()
		err = conn.QueryRow(ctx, sql.Installation).Scan(&id)
	}
	return id, store.Explain("reading which mesh the database holds", err)
}

// Places lists where the feed is read from, one for each host of the URL, without users and
// passwords.
func (f *Feed) Places() []string {
	place := func(host string, port uint16) string {
		return "postgres://" + net.JoinHostPort(host, strconv.Itoa(int(port))) + "/" + f.config.Database
	}
	places := []string{place(f.config.Host, f.config.Port)}
	for _, other := range f.config.Fallbacks {
		places = append(places, place(other.Host, other.Port))
	}
	slices.Sort(places)
	return slices.Compact(places) // a host is listed twice if TLS is optional
}
