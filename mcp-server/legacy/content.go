package legacy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	mcp "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// content is the content of a collection: envelopes, by the names that sinks use.
type content struct {
	set *served.Set
	// version changes exactly when the set does. It is the same on every server and after a
	// restart.
	version string
	// revision is the snapshot's.
	revision string
}

// contentCache caches what is derived from sets of a snapshot for as long as somebody holds the
// set, because many streams are sent the same set.
type contentCache struct {
	mu     sync.Mutex
	cached map[weak.Pointer[served.Set]]derived
}

// derived is what is computed from a set. It must not hold the set, or that would never be freed.
type derived struct {
	digest  string
	wrapped *served.Set
}

// of returns the content of a collection in a snapshot.
func (c *contentCache) of(in *collection, snap *served.Snapshot) (content, error) {
	set := snap.Sets[in.typeURL()]
	if set.Len() == 0 {
		return content{nil, in.name + "/0", snap.Revision}, nil
	}
	d, err := c.derive(in, set)
	if err != nil {
		return content{}, err
	}
	if d.wrapped != nil {
		set = d.wrapped
	}
	return content{set, in.name + "/" + d.digest, snap.Revision}, nil
}

func (c *contentCache) derive(in *collection, set *served.Set) (derived, error) {
	key := weak.Make(set)
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, ok := c.cached[key]; ok {
		return d, nil
	}
	d := derived{digest: digest(set)}
	if name := in.bareName(); name != "" {
		envelope, err := wrapBare(set, name)
		if err != nil {
			return derived{}, err
		}
		d = derived{digest(envelope), envelope}
	}
	if c.cached == nil {
		c.cached = map[weak.Pointer[served.Set]]derived{}
	}
	c.cached[key] = d
	runtime.AddCleanup(set, c.forget, key)
	return d, nil
}

func (c *contentCache) forget(key weak.Pointer[served.Set]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.cached, key)
}

func digest(set *served.Set) string {
	h := sha256.New()
	for r := range set.All() {
		fmt.Fprintf(h, "%s\x00%s\x00", r.Name, r.Version)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// wrapBare wraps the first resource of a bare kind into an envelope, with the name that sinks use.
// A mesh has at most one.
func wrapBare(set *served.Set, name string) (*served.Set, error) {
	for r := range set.All() {
		envelope := &mcp.Resource{Metadata: &mcp.Metadata{Name: name, Version: r.Version}, Body: r.Body}
		body := &anypb.Any{}
		if err := anypb.MarshalFrom(body, envelope, proto.MarshalOptions{Deterministic: true}); err != nil {
			return nil, fmt.Errorf("encode %s for MCP: %w", name, err)
		}
		return served.NewSet(&served.Resource{Name: name, Version: r.Version, Body: body}), nil
	}
	return nil, nil
}
