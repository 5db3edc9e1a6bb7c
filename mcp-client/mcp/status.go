package mcp

import (
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/reason"
	"github.com/pgmesh/pgmesh/kinds"
)

// Status is the state of a client.
type Status struct {
	Connected bool
	// Synced is set once the whole state was delivered, and stays set.
	Synced   bool
	Revision int64
	// Reconnects counts the streams that broke or could not be opened, and Losses those that were
	// followed.
	Reconnects, Losses int
	// LastError is the reason why the last stream broke.
	LastError error

	// Target is the current or last address.
	Target string
	// Protocol is the current or last form of the protocol.
	Protocol Protocol
	// Server is the server's identifier: "pgmesh/mcp-server", or istiod's JSON. Not every server
	// sends one.
	Server string
	// Standing is the server's last standing, nil if it does not send any.
	Standing *Standing
	// Unanswered are the types, or collections, that the server has not answered for within
	// Config.AnswerTimeout. Nothing is delivered from a stream until all are answered.
	Unanswered []string
	// Held are the kinds that the server has emptied and for which it is not yet believed.
	Held []Held
}

// Held is a kind whose resources are kept although the server has none.
type Held struct {
	Kind      *kinds.Kind
	Resources int
	// Until is when the client will believe the server, if it is connected and the kind is still
	// empty.
	Until time.Time
}

// Status returns the current state.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

func (c *Client) change(change func(*Status)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.status)
}

func (c *Client) broken(target string, err error) {
	err = reason.Plain(err)
	c.mu.Lock()
	first := c.status.Connected || c.status.LastError == nil || c.status.LastError.Error() != err.Error()
	if c.status.Connected {
		c.status.Losses++
	}
	c.status.Connected, c.status.LastError, c.status.Unanswered, c.status.Target = false, err, nil, target
	c.status.Reconnects++
	c.mu.Unlock()
	if first && !c.cfg.Once { // log the same failure only once, and not what Run returns
		c.cfg.Log.Warn("lost the configuration server; what it sent stays in force, and the client goes on trying",
			"server", target, "error", err)
	}
	if c.cfg.Down != nil {
		c.cfg.Down(err)
	}
}

func (c *Client) disconnected() {
	c.change(func(s *Status) { s.Connected = false })
}

func (c *Client) connected(at *server, protocol Protocol, name string) {
	c.change(func(s *Status) {
		s.Connected, s.LastError = true, nil
		s.Target, s.Protocol, s.Server = at.target, protocol, name
	})
	c.cfg.Log.Info("following the configuration server", "server", at.target, "protocol", protocol, "calls_itself", name)
	if c.cfg.Up != nil {
		c.cfg.Up(c.Status())
	}
}

func (c *Client) delivered() {
	c.change(func(s *Status) {
		s.Synced, s.Revision, s.Held, s.Unanswered = true, c.lastEnd.revision, c.holds.list(), nil
	})
}
