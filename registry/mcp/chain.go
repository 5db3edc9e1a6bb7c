package mcp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	client "github.com/pgmesh/pgmesh/mcp-client/mcp"
	"github.com/pgmesh/pgmesh/registry"
)

// chain is what the server says of itself and of the registries that it reads in turn: whether it is
// current, and whether what it has comes from here.
type chain struct {
	sink registry.Chain // nil if nobody follows the sink

	standing client.Standing
	behind   map[string]error // why the server is not current with a registry of its own
	circles  map[string]bool  // its registries that read this server
	blamed   map[string]bool  // what the sink was told to be bad
	refused  error            // why nothing is taken from the server; nil if it is
}

func newChain(sink registry.Sink) *chain {
	c := &chain{blamed: map[string]bool{}}
	c.sink, _ = sink.(registry.Chain)
	return c
}

// unsure reports whether what is missing of an origin may be there.
func (c *chain) unsure(origin string) bool { return c.behind[origin] != nil }

// circular reports whether what is of an origin comes from this server.
func (c *chain) circular(origin string) bool { return c.circles[origin] }

var (
	errItself = errors.New("it is this server, or one that gets what it serves from this one: leave it out of --registry")
	errOwn    = errors.New("it serves this mesh itself: a registry has what another mesh has, so leave it out of --registry")
)

// hear takes what the server says of itself.
func (c *chain) hear(ctx context.Context, told client.Standing) error {
	var server, mesh string
	if c.sink != nil {
		var err error
		if server, mesh, err = c.sink.Self(ctx); err != nil {
			return err
		}
	}
	c.standing, c.refused = told, nil
	switch {
	case server != "" && slices.Contains(told.Path, server):
		c.refused = errItself
	case mesh != "" && told.Mesh == mesh:
		c.refused = errOwn
	}
	c.behind, c.circles = map[string]error{}, map[string]bool{}
	for _, r := range told.Registries {
		if err := r.Behind(); err != nil {
			c.behind[r.Name] = err
		}
		if server != "" && slices.Contains(r.Servers, server) || mesh != "" && slices.Contains(r.Meshes, mesh) {
			c.circles[r.Name] = true
		}
	}
	if c.sink != nil {
		c.sink.Behind(told.Path, meshesOf(told))
	}
	return nil
}

// meshesOf are the meshes behind a server and its registries.
func meshesOf(told client.Standing) (all []string) {
	if told.Mesh != "" {
		all = append(all, told.Mesh)
	}
	for _, r := range told.Registries {
		all = append(all, r.Meshes...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// relieved reports whether the server is current again with a registry that the sink was told is bad.
func (c *chain) relieved() bool {
	for name := range c.blamed {
		if !c.unsure(name) {
			return true
		}
	}
	return false
}

// blame tells the sink which registries the server is behind, so that the sink keeps what is missing of
// them. The entries of a registry begin with its name.
func (c *chain) blame(sink registry.Sink) {
	for name := range c.blamed {
		if !c.unsure(name) {
			delete(c.blamed, name)
			sink.Bad(name, nil)
		}
	}
	for name, err := range c.behind {
		c.blamed[name] = true
		sink.Bad(name, err)
	}
}

// reason says why what the server has may not be the newest; nil if it is.
func (c *chain) reason() error {
	if c.refused != nil {
		return c.refused
	}
	if stale := c.standing.Stale; !stale.IsZero() {
		return fmt.Errorf("it has lost what it serves, which was the newest at %s", stale.UTC().Format(time.RFC3339))
	}
	for _, r := range c.standing.Registries {
		if err := c.behind[r.Name]; err != nil && !c.circular(r.Name) {
			return err
		}
	}
	return nil
}
