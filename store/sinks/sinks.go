// Package sinks shares among servers the sinks that are to be dialled: who take configuration by
// the first generation of MCP.
package sinks

import (
	"cmp"
	"context"
	"embed"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/notifications"
	"github.com/pgmesh/pgmesh/store/query"
)

//go:embed queries
var files embed.FS

var sql = query.Read[struct {
	Sinks, Statuses, Take, Release, ReportState string
}](files)

// Sink is a server that takes configuration by the first generation of MCP, and has to be dialled.
type Sink struct {
	Address    string
	Metadata   map[string]string // headers
	Transport  listen.Transport
	ServerName string // the name in its certificate, if not the address's
	ServerID   string // its SPIFFE id
}

// State is the state of dialling a sink.
type State struct {
	Connected bool
	Since     time.Time // when Connected last changed
	Error     string    // why it is not connected
}

// Status is the state of a sink at one of the servers. Server is "" for a sink that no server has
// dialled.
type Status struct {
	Address   string     `json:"address"`
	Server    string     `json:"server,omitempty"`
	Dials     bool       `json:"dials"` // this server has the sink now
	Connected bool       `json:"connected"`
	Since     *time.Time `json:"since,omitempty"`
	Error     string     `json:"error,omitempty"`
	LetGoAt   *time.Time `json:"let_go_at,omitempty"` // when the server left it to others
}

// Options configure how a program dials sinks.
type Options struct {
	// Server is the name of this program for others.
	Server string
	// Poll is how often to look for news, in case a notification is lost; 5 s if 0.
	Poll time.Duration
	// Dial is called with the sinks that this program should dial, whenever they change.
	Dial func([]Sink)
	// States returns the state of each sink that is dialled, by address. If nil, no sink is let go.
	States func() map[string]State
	// Seen, unless nil, is called with the states of all sinks at all servers.
	Seen func([]Status)
	// LetGo is how long a sink may be unreachable before it is left to others; 30 s if 0. If nobody
	// takes it, it is dialled again.
	LetGo time.Duration
	// Rest is how long a sink is left to others; 10 s if 0.
	Rest time.Duration
}

// Follow calls Dial with the sinks that this program should dial. A sink belongs to one program at
// a time, and moves to another when that loses the database or cannot reach the sink. While the
// database is away a program keeps its sinks. Follow returns when ctx ends.
func Follow(ctx context.Context, db *store.Store, how Options) error {
	how.LetGo, how.Rest, how.Poll = cmp.Or(how.LetGo, 30*time.Second), cmp.Or(how.Rest, 10*time.Second), cmp.Or(how.Poll, 5*time.Second)
	resting := map[string]*rest{}
	unread := func(err error, _ time.Duration) {
		if err = store.Explain("following the sinks", err); !store.Temporary(err) { // the feed logs that the database is away
			db.Log().Error("cannot read which sinks to dial; those that are known stay", "error", err)
		}
	}
	return retry.Loop{Pauses: notifications.Reconnecting, Reason: unread}.Forever(ctx, func(works func()) error {
		return follow(ctx, db, how, resting, works)
	})
}
