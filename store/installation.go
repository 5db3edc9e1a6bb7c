package store

import (
	"context"
	"net"
	"slices"
	"strconv"
)

// Installation returns the id of the feed's mesh. It is the same on standbys, after a failover, and in a
// copy or restored dump, and different for databases that were created separately.
func (s *Store) Installation(ctx context.Context) (id string, err error) {
	conn, err := s.connectFeed(ctx)
	if err == nil {
		defer CloseConn(conn)
		ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
		defer cancel()
		// The id is a hash of a random secret, and reveals nothing about it.
		err = conn.QueryRow(ctx, `SELECT left(encode(sha256(convert_to('pgmesh installation ' || secret, 'UTF8')), 'hex'), 32) FROM mesh.installation`).Scan(&id)
	}
	return id, Explain("reading which mesh the database holds", err)
}

// Places lists where the feed is read from, one for each host of the URL, without users and passwords.
func (s *Store) Places() []string {
	place := func(host string, port uint16) string {
		return "postgres://" + net.JoinHostPort(host, strconv.Itoa(int(port))) + "/" + s.feed.Database
	}
	places := []string{place(s.feed.Host, s.feed.Port)}
	for _, f := range s.feed.Fallbacks {
		places = append(places, place(f.Host, f.Port))
	}
	slices.Sort(places)
	return slices.Compact(places) // a host is listed twice if TLS is optional
}
