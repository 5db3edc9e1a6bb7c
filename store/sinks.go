package store

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/wait"
)

// Sink is a server that takes configuration by the first generation of MCP and wants to be dialled.
type Sink struct {
	Address    string
	Metadata   map[string]string // headers
	TLS        *bool             // nil: as the flags of the program say
	ServerName string            // in its certificate, if it is not that of the address
	ServerID   string            // its SPIFFE id
}

// SinkState is what has come of dialling a sink.
type SinkState struct {
	Connected bool
	Since     time.Time // since when that is so
	Error     string    // why it is not connected
}

// SinkStatus is what has come of dialling a sink at one of the servers. Server is "" for a sink that none has dialled.
type SinkStatus struct {
	Address   string     `json:"address"`
	Server    string     `json:"server,omitempty"`
	Dials     bool       `json:"dials"` // it is this server that has the sink now
	Connected bool       `json:"connected"`
	Since     *time.Time `json:"since,omitempty"`
	Error     string     `json:"error,omitempty"`
	LetGoAt   *time.Time `json:"let_go_at,omitempty"` // when the server left it to others
}

// Sinks says how a program dials sinks.
type Sinks struct {
	// Server is what others call this program.
	Server string
	// Dial is called with the sinks that this program is to dial, whenever they have changed.
	Dial func([]Sink)
	// States has what came of dialling, by address. Nil is nothing: then no sink is let go.
	States func() map[string]SinkState
	// Seen is called, if it is not nil, with what came of all sinks at all servers.
	Seen func([]SinkStatus)
	// LetGo is how long a sink may not be reached before it is left to others; 30 s if 0. When nobody has taken it in a while, it is dialled again.
	LetGo time.Duration
	// Rest is how long it is left to others; 10 s if 0.
	Rest time.Duration
}

// FollowSinks has a program dial the sinks that it is to dial, whenever they have changed. A sink is given to one program at a time: to another when
// that has lost the database, or cannot reach the sink. While the database is away a program keeps those that it has. It returns when ctx ends.
func (s *Store) FollowSinks(ctx context.Context, how Sinks) error {
	how.LetGo, how.Rest = cmp.Or(how.LetGo, 30*time.Second), cmp.Or(how.Rest, 10*time.Second)
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = 20*time.Millisecond, 5*time.Second
	resting := map[string]*sinkBackoff{}
	for said := ""; ; {
		err := s.followSinks(ctx, how, resting, retry.Reset)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = explain("following the sinks", err)
		if !Temporary(err) && err.Error() != said { // the feed tells of a database that is away
			said = err.Error()
			s.options.Log.Error("cannot read which sinks to dial; those that are known stay", "error", err)
		}
		if !wait.For(ctx, retry.NextBackOff()) {
			return ctx.Err()
		}
	}
}

// sinkSession is a connection by which the database knows which sinks this program dials, for as long as it lasts.
type sinkSession struct {
	Sinks

	conn     *pgx.Conn
	log      *slog.Logger
	held     map[string]bool
	backoffs map[string]*sinkBackoff // the sinks that this program has let go
	reported map[string]SinkState    // what others were told last
}

func (s *Store) followSinks(ctx context.Context, how Sinks, resting map[string]*sinkBackoff, healthy func()) error {
	config := s.pool.Config().ConnConfig.Copy()
	config.RuntimeParams["application_name"] = s.options.Application + " sinks"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer closeConn(conn)
	session := &sinkSession{how, conn, s.options.Log, map[string]bool{}, resting, map[string]SinkState{}}
	for {
		list, err := session.read(ctx)
		if err != nil {
			return err
		}
		healthy()
		how.Dial(list)
		if err := session.wait(ctx, s.options.Poll); err != nil {
			return err
		}
		if !wait.For(ctx, spuriousWakePause) { // what anybody sends is looked at together
			return ctx.Err()
		}
	}
}

// read listens, and returns the sinks that this program has got hold of. From a hot standby there are none to get.
func (s *sinkSession) read(ctx context.Context) ([]Sink, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	if standby, err := listen(ctx, s.conn, serversChannel); err != nil || standby {
		return nil, err
	}
	rows, err := s.conn.Query(ctx, `SELECT address, metadata, tls, coalesce(server_name, ''), coalesce(server_id, '')
		FROM mesh.sinks WHERE enabled ORDER BY address`)
	if err != nil {
		return nil, err
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Sink])
	if err != nil {
		return nil, err
	}
	if err := s.release(ctx, all); err != nil {
		return nil, err
	}
	if err := s.reportStates(ctx); err != nil {
		return nil, err
	}
	var mine []Sink
	for _, sink := range all {
		if err := s.take(ctx, sink.Address); err != nil {
			return nil, err
		}
		if s.held[sink.Address] {
			mine = append(mine, sink)
		}
	}
	return mine, s.readStatuses(ctx, len(all))
}

// take gets hold of a sink, if no other program has it.
func (s *sinkSession) take(ctx context.Context, address string) error {
	if s.held[address] || s.backoffs[address].active() {
		return nil
	}
	var got bool
	err := s.conn.QueryRow(ctx, "SELECT mesh.take_sink($1, $2)", address, s.Server).Scan(&got)
	s.held[address] = got
	return err
}

// release lets go of what is not in a list.
func (s *sinkSession) release(ctx context.Context, keep []Sink) error {
	for address, held := range s.held {
		if slices.ContainsFunc(keep, func(k Sink) bool { return k.Address == address }) {
			continue
		}
		if held {
			if _, err := s.conn.Exec(ctx, "SELECT mesh.release_sink($1)", address); err != nil {
				return err
			}
		}
		delete(s.held, address)
		delete(s.backoffs, address)
		delete(s.reported, address)
	}
	return nil
}

// wait returns when there may be something new, be it that another program has let go of a sink.
func (s *sinkSession) wait(ctx context.Context, poll time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, poll)
	defer cancel()
	for {
		n, err := s.conn.WaitForNotification(waiting)
		switch {
		case err == nil && n.Payload != "sinks": // another table that servers go by
		case waiting.Err() != nil && ctx.Err() == nil:
			return nil
		default:
			return err
		}
	}
}
