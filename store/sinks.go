package store

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
)

// Sink is a server that takes configuration by the first generation of MCP, and has to be dialled.
type Sink struct {
	Address    string
	Metadata   map[string]string // headers
	TLS        *bool             // nil means what the program's flags say
	ServerName string            // the name in its certificate, if not the address's
	ServerID   string            // its SPIFFE id
}

// SinkState is the state of dialling a sink.
type SinkState struct {
	Connected bool
	Since     time.Time // when Connected last changed
	Error     string    // why it is not connected
}

// SinkStatus is the state of a sink at one of the servers. Server is "" for a sink that no server has
// dialled.
type SinkStatus struct {
	Address   string     `json:"address"`
	Server    string     `json:"server,omitempty"`
	Dials     bool       `json:"dials"` // this server has the sink now
	Connected bool       `json:"connected"`
	Since     *time.Time `json:"since,omitempty"`
	Error     string     `json:"error,omitempty"`
	LetGoAt   *time.Time `json:"let_go_at,omitempty"` // when the server left it to others
}

// Sinks configures how a program dials sinks.
type Sinks struct {
	// Server is the name of this program for others.
	Server string
	// Dial is called with the sinks that this program should dial, whenever they change.
	Dial func([]Sink)
	// States returns the state of each sink that is dialled, by address. If nil, no sink is let go.
	States func() map[string]SinkState
	// Seen, unless nil, is called with the states of all sinks at all servers.
	Seen func([]SinkStatus)
	// LetGo is how long a sink may be unreachable before it is left to others; 30 s if 0. If nobody takes
	// it, it is dialled again.
	LetGo time.Duration
	// Rest is how long a sink is left to others; 10 s if 0.
	Rest time.Duration
}

// FollowSinks calls Dial with the sinks that this program should dial. A sink belongs to one program at a
// time, and moves to another when that loses the database or cannot reach the sink. While the database is
// away a program keeps its sinks. FollowSinks returns when ctx ends.
func (s *Store) FollowSinks(ctx context.Context, how Sinks) error {
	how.LetGo, how.Rest = cmp.Or(how.LetGo, 30*time.Second), cmp.Or(how.Rest, 10*time.Second)
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = 20*time.Millisecond, 5*time.Second
	resting := map[string]*sinkBackoff{}
	for lastError := ""; ; {
		err := s.followSinks(ctx, how, resting, retry.Reset)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err = Explain("following the sinks", err)
		if !Temporary(err) && err.Error() != lastError { // the feed logs that the database is away
			lastError = err.Error()
			s.options.Log.Error("cannot read which sinks to dial; those that are known stay", "error", err)
		}
		if !wait.For(ctx, retry.NextBackOff()) {
			return ctx.Err()
		}
	}
}

// sinkSession is a connection. While it lasts, the database knows which sinks this program has.
type sinkSession struct {
	Sinks

	conn     *pgx.Conn
	log      *slog.Logger
	held     map[string]bool
	backoffs map[string]*sinkBackoff // by address: the sinks that this program let go
	reported map[string]SinkState    // by address: the state reported last
}

func (s *Store) followSinks(ctx context.Context, options Sinks, resting map[string]*sinkBackoff, healthy func()) error {
	config := s.pool.Config().ConnConfig.Copy()
	config.RuntimeParams["application_name"] = s.options.Application + " sinks"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer CloseConn(conn)
	session := &sinkSession{options, conn, s.options.Log, map[string]bool{}, resting, map[string]SinkState{}}
	for {
		list, err := session.read(ctx)
		if err != nil {
			return err
		}
		healthy()
		options.Dial(list)
		if err := session.wait(ctx, s.options.Poll); err != nil {
			return err
		}
		if !wait.For(ctx, spuriousWakePause) { // handle many notifications at once
			return ctx.Err()
		}
	}
}

// read subscribes to changes, and returns the sinks that this program now has. A hot standby gives none.
func (s *sinkSession) read(ctx context.Context) ([]Sink, error) {
	ctx, cancel := context.WithTimeout(ctx, QueryTimeout)
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

// take acquires a sink unless another program has it.
func (s *sinkSession) take(ctx context.Context, address string) error {
	if s.held[address] || s.backoffs[address].active() {
		return nil
	}
	var got bool
	err := s.conn.QueryRow(ctx, "SELECT mesh.take_sink($1, $2)", address, s.Server).Scan(&got)
	s.held[address] = got
	return err
}

// release releases the sinks that are not in a list.
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

// wait waits until there may be something new, or another program may have released a sink.
func (s *sinkSession) wait(ctx context.Context, poll time.Duration) error {
	waiting, cancel := context.WithTimeout(ctx, poll)
	defer cancel()
	for {
		n, err := s.conn.WaitForNotification(waiting)
		switch {
		case err == nil && n.Payload != "sinks": // a change of another table
		case waiting.Err() != nil && ctx.Err() == nil:
			return nil
		default:
			return err
		}
	}
}
