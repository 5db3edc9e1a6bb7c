package store

import (
	"context"
	"net"
	"slices"
	"strconv"
)

// Installation identifies the mesh that the feed is of. It is the same on standbys, after a failover, and in a copy or a restored dump of the
// database, and differs between databases that were made apart.
func (s *Store) Installation(ctx context.Context) (id string, err error) {
	conn, err := s.connectFeed(ctx)
	if err == nil {
		defer closeConn(conn)
		ctx, cancel := context.WithTimeout(ctx, queryTimeout)
		defer cancel()
		// Of the secret, which is random, a hash says nothing.
		err = conn.QueryRow(ctx, `SELECT left(encode(sha256(convert_to('pgmesh installation ' || secret, 'UTF8')), 'hex'), 32) FROM mesh.installation`).Scan(&id)
	}
	return id, explain("reading which mesh the database holds", err)
}

// Places lists where the feed is read from, without users and passwords: one for each host of the URL.
func (s *Store) Places() []string {
	place := func(host string, port uint16) string {
		return "postgres://" + net.JoinHostPort(host, strconv.Itoa(int(port))) + "/" + s.feed.Database
	}
	places := []string{place(s.feed.Host, s.feed.Port)}
	for _, f := range s.feed.Fallbacks {
		places = append(places, place(f.Host, f.Port))
	}
	slices.Sort(places)
	return slices.Compact(places) // a host is tried twice where TLS is optional
}
