package publish

import (
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// RegistryStanding says how current what is served of a registry is. Clients are told of it.
type RegistryStanding struct {
	Name string
	// Stale is since when it cannot be asked; zero while it can.
	Stale time.Time
	// Read says that it was read since the server has started.
	Read bool
	// Servers and Meshes are those behind a registry that is another server.
	Servers, Meshes []string
}

// current reports whether what is missing of the registry is not there.
func (s *RegistryStanding) current() bool { return s.Read && s.Stale.IsZero() }

func (s *RegistryStanding) equal(other *RegistryStanding) bool {
	return s.Name == other.Name && s.Read == other.Read && s.Stale.Equal(other.Stale) &&
		slices.Equal(s.Servers, other.Servers) && slices.Equal(s.Meshes, other.Meshes)
}

func (s *RegistryStanding) message() *mcpv1.RegistryStanding {
	return &mcpv1.RegistryStanding{Name: s.Name, StaleSince: stamp.Of(s.Stale), Read: s.Read, Servers: s.Servers, Meshes: s.Meshes}
}

// StandJoined tells clients how a registry stands.
func (p *Publisher) StandJoined(now RegistryStanding) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.layers.of(now.Name)
	if l.stands.equal(&now) {
		return
	}
	if l.stands = now; p.loaded {
		p.publish(p.base, p.at, time.Time{})
	}
}

// registries are those of the source and of the layers, as clients are told.
func (p *Publisher) registries() (all []*mcpv1.RegistryStanding) {
	for _, of := range p.source.Registries {
		all = append(all, of.message())
	}
	for _, l := range p.layers.list {
		all = append(all, l.stands.message())
	}
	return all
}
