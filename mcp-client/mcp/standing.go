package mcp

import (
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// Standing says how current a server is, and of which mesh.
type Standing struct {
	// Mesh is the same for all servers of one database and for their relays, "" if unknown.
	Mesh string
	// Stale is zero while the server has its source. Otherwise it has lost its database, or the
	// server that it relays, and serves the state of this time.
	Stale time.Time
	// Saved is set if it serves what it saved to a file before it was restarted.
	Saved bool
	// Path has an id for each server between the client and the database, nearest first.
	Path []string
	// Registries are those from which the server has resources beside those of its source.
	Registries []RegistryStanding
}

// RegistryStanding says how current what a server has of a registry is. With the first batch after it
// was told, all that the registry had then has come.
type RegistryStanding struct {
	// Name is the origin of its resources.
	Name string
	// Stale is zero while the server can ask the registry.
	Stale time.Time
	// Read is false if the server has not read it since it has started. What is missing of it may be
	// there.
	Read bool
	// Servers and Meshes are those behind a registry that is another server.
	Servers, Meshes []string
}

// Behind says why the server is not current with the registry; nil if it is. What is missing of a
// registry that the server is behind may be there.
func (r *RegistryStanding) Behind() error {
	switch {
	case !r.Stale.IsZero():
		return fmt.Errorf("its registry %s is as it was at %s", r.Name, r.Stale.UTC().Format(time.RFC3339))
	case !r.Read:
		return fmt.Errorf("its registry %s was not read since it has started", r.Name)
	}
	return nil
}

// The most that is kept of what a server says of its registries.
const (
	mostRegistries = 1000
	mostIDs        = 1000
)

// standingOf reads what a server says of itself.
func standingOf(m *mcpv1.Standing) Standing {
	told := Standing{Mesh: m.GetMesh(), Saved: m.GetSaved(), Path: m.GetPath(), Stale: timeOf(m.GetStaleSince())}
	for _, r := range m.GetRegistries()[:min(len(m.GetRegistries()), mostRegistries)] {
		told.Registries = append(told.Registries, RegistryStanding{
			Name: r.GetName(), Stale: timeOf(r.GetStaleSince()), Read: r.GetRead(),
			Servers: r.GetServers()[:min(len(r.GetServers()), mostIDs)], Meshes: r.GetMeshes()[:min(len(r.GetMeshes()), mostIDs)],
		})
	}
	return told
}

func timeOf(stamp *timestamppb.Timestamp) time.Time {
	if stamp == nil {
		return time.Time{}
	}
	return stamp.AsTime()
}

// standing processes the server's standing.
func (s *session) standing(r *response) error {
	if len(r.resources) == 0 { // the server does not send its standing
		s.client.setStanding(s.at, nil)
		return s.answer(r, nil)
	}
	m := &mcpv1.Standing{}
	if err := r.resources[0].any().UnmarshalTo(m); err != nil {
		return s.answer(r, refuse(codes.InvalidArgument, fmt.Errorf("decode the standing of the server: %w", err)))
	}
	told := standingOf(m)
	s.client.setStanding(s.at, &told)
	if hear := s.client.cfg.Standing; hear != nil {
		if err := hear(told); err != nil {
			return &applyError{err}
		}
	}
	return s.answer(r, nil)
}

// errBehind means that the server would take back what another server, or itself before a restart,
// has delivered.
var errBehind = errors.New("the server has lost what it serves, and is behind what was delivered already")

// checkBehind returns an error if a batch comes from a server that has lost its source and has an
// older revision than was delivered. A server with its source may go back: its database was
// restored, or failed over.
func (s *session) checkBehind(end batchEnd) error {
	standing, last := s.client.Status().Standing, s.client.lastEnd
	if standing == nil || standing.Stale.IsZero() || standing.Mesh == "" || standing.Mesh != s.client.mesh || end.revision >= last.revision {
		return nil
	}
	return fmt.Errorf("%w (revision %d after %d)", errBehind, end.revision, last.revision)
}

// tellReturn says in the log that the mesh goes back to an older revision. What came after that is
// gone, and nobody else may have noticed.
func (s *session) tellReturn(end batchEnd) {
	standing, last := s.client.Status().Standing, s.client.lastEnd
	if standing == nil || standing.Mesh != s.client.mesh || end.revision == 0 || end.revision >= last.revision {
		return
	}
	s.client.cfg.Log.Warn("the mesh went back to an older revision: its database was restored from a backup or failed over, or this server is behind the one before",
		"server", s.at.target, "revision", end.revision, "seen", last.revision)
}

// recordMesh notes the mesh of the delivered batch.
func (s *session) recordMesh() {
	if standing := s.client.Status().Standing; standing != nil {
		s.client.mesh = standing.Mesh
	}
}

func (c *Client) setStanding(at *server, now *Standing) {
	c.mu.Lock()
	before := c.status.Standing
	c.status.Standing = now
	c.mu.Unlock()
	wasStale, isStale := before != nil && !before.Stale.IsZero(), now != nil && !now.Stale.IsZero()
	switch {
	case c.cfg.Standing != nil: // the callback has been told
	case isStale && !wasStale:
		c.cfg.Log.Warn("the configuration server has lost what it serves, and serves what was the newest then",
			"server", at.target, "since", now.Stale, "saved", now.Saved)
	case wasStale && !isStale:
		c.cfg.Log.Info("the configuration server serves the newest again", "server", at.target)
	}
}
