package mcp

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// Standing tells how what a server serves stands to its mesh.
type Standing struct {
	// Mesh is the same for all servers of one database and those that relay them, "" where nobody knows.
	Mesh string
	// Stale is zero while the server is served itself. Else it has lost its database, or the server that it relays, and serves
	// what was the newest at this time.
	Stale time.Time
	// Saved says that it serves what it had in a file when it started.
	Saved bool
	// Path has an id of each server between the client and the database, the client's own first.
	Path []string
}

// standing takes in what the server tells of itself.
func (s *session) standing(r *response) error {
	if len(r.resources) == 0 { // a server that does not tell
		s.client.told(s.at, nil)
		return s.answer(r, nil)
	}
	m := &mcpv1.Standing{}
	if err := r.resources[0].any().UnmarshalTo(m); err != nil {
		return s.answer(r, refuse(codes.InvalidArgument, fmt.Errorf("decode the standing of the server: %w", err)))
	}
	told := Standing{Mesh: m.GetMesh(), Saved: m.GetSaved(), Path: m.GetPath()}
	if m.GetStaleSince() != nil {
		told.Stale = m.GetStaleSince().AsTime()
	}
	s.client.told(s.at, &told)
	if hear := s.client.cfg.Standing; hear != nil {
		if err := hear(told); err != nil {
			return &applyError{err}
		}
	}
	return s.answer(r, nil)
}

// errBehind is for a server that would take back what another has delivered, or itself before it was started again.
var errBehind = errors.New("the server has lost what it serves, and is behind what was delivered already")

// behind tells whether a batch comes from a server that has lost its own source, and knows less of the mesh than was delivered. What has its
// source may go back: its database was restored, or failed over.
func (s *session) behind(end mark) error {
	standing, last := s.client.Status().Standing, s.client.last
	if standing == nil || standing.Stale.IsZero() || standing.Mesh == "" || standing.Mesh != s.client.mesh || end.revision >= last.revision {
		return nil
	}
	return fmt.Errorf("%w (revision %d after %d)", errBehind, end.revision, last.revision)
}

// from notes of which mesh is what was delivered.
func (s *session) from() {
	if standing := s.client.Status().Standing; standing != nil {
		s.client.mesh = standing.Mesh
	}
}

func (c *Client) told(at *server, now *Standing) {
	c.mu.Lock()
	before := c.status.Standing
	c.status.Standing = now
	c.mu.Unlock()
	wasStale, isStale := before != nil && !before.Stale.IsZero(), now != nil && !now.Stale.IsZero()
	switch {
	case c.cfg.Standing != nil: // it is told
	case isStale && !wasStale:
		c.cfg.Log.Warn("the configuration server has lost what it serves, and serves what was the newest then",
			"server", at.target, "since", now.Stale, "saved", now.Saved)
	case wasStale && !isStale:
		c.cfg.Log.Info("the configuration server serves the newest again", "server", at.target)
	}
}
