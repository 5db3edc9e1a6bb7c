package mcp

import (
	"time"

	"github.com/pgmesh/pgmesh/kinds"
)

// Status is how a client stands.
type Status struct {
	Connected bool
	// Synced is set once the whole state was delivered, and stays.
	Synced   bool
	Revision int64
	// Reconnects counts the streams that broke.
	Reconnects int
	// LastError is why the last stream broke.
	LastError error

	// Target is the address that is followed, or was last.
	Target string
	// Protocol is the form that is spoken with it, or was last.
	Protocol Protocol
	// Server is what it calls itself: "pgmesh/mcp-server", or istiod's JSON. Not every server says.
	Server string
	// Standing is what it told of itself last, nil if it is not one that tells.
	Standing *Standing
	// Unanswered are the types, or collections, that the server has left unanswered for longer than Config.Patience. Nothing is
	// delivered from a stream until all are answered.
	Unanswered []string
	// Held are the kinds of which the server says that there is nothing any more, and is not believed yet.
	Held []Held
}

// Held is a kind whose resources stay in force although the server has none.
type Held struct {
	Kind      *kinds.Kind
	Resources int
	// Until is when the server will be believed, if it is connected then and still says so.
	Until time.Time
}

// Status tells how the client stands.
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
	c.mu.Lock()
	first := c.status.Connected || c.status.LastError == nil || c.status.LastError.Error() != err.Error()
	c.status.Connected, c.status.LastError, c.status.Unanswered, c.status.Target = false, err, nil, target
	c.status.Reconnects++
	c.mu.Unlock()
	if first && !c.cfg.Once { // the same failure over and over is said once, and what Run returns is not said
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
		s.Synced, s.Revision, s.Held, s.Unanswered = true, c.last.revision, c.holds.list(), nil
	})
}
