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

	"github.com/pgmesh/pgmesh/internal/ads"
)

// content is what is in a collection: envelopes, by the names that sinks know them by.
type content struct {
	set *ads.Set
	// version changes exactly when what is in the set does. It is the same on every server and after every restart.
	version string
	// revision is that of the snapshot.
	revision string
}

// contents knows the content of sets of a snapshot, for as long as somebody holds the set. Many streams are sent the same one.
type contents struct {
	mu    sync.Mutex
	known map[weak.Pointer[ads.Set]]derived
}

// derived is what a set does not say by itself. It must not hold the set.
type derived struct {
	digest string
	lone   *ads.Set
}

// of returns the content of a collection in a snapshot.
func (c *contents) of(in *collection, snap *ads.Snapshot) (content, error) {
	set := snap.Sets[in.typeURL()]
	if set.Len() == 0 {
		return content{nil, in.name + "/0", snap.Revision}, nil
	}
	d, err := c.derive(in, set)
	if err != nil {
		return content{}, err
	}
	if d.lone != nil {
		set = d.lone
	}
	return content{set, in.name + "/" + d.digest, snap.Revision}, nil
}

func (c *contents) derive(in *collection, set *ads.Set) (derived, error) {
	key := weak.Make(set)
	c.mu.Lock()
	defer c.mu.Unlock()
	if d, ok := c.known[key]; ok {
		return d, nil
	}
	d := derived{digest: digest(set)}
	if name := in.lone(); name != "" {
		envelope, err := alone(set, name)
		if err != nil {
			return derived{}, err
		}
		d = derived{digest(envelope), envelope}
	}
	if c.known == nil {
		c.known = map[weak.Pointer[ads.Set]]derived{}
	}
	c.known[key] = d
	runtime.AddCleanup(set, c.forget, key)
	return d, nil
}

func (c *contents) forget(key weak.Pointer[ads.Set]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, key)
}

func digest(set *ads.Set) string {
	h := sha256.New()
	for r := range set.All() {
		fmt.Fprintf(h, "%s\x00%s\x00", r.Name, r.Version)
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// alone puts the first of a set of resources without envelope into one, under the name that sinks know it by. A mesh has no second.
func alone(set *ads.Set, name string) (*ads.Set, error) {
	for r := range set.All() {
		envelope := &mcp.Resource{Metadata: &mcp.Metadata{Name: name, Version: r.Version}, Body: r.Body}
		body := &anypb.Any{}
		if err := anypb.MarshalFrom(body, envelope, proto.MarshalOptions{Deterministic: true}); err != nil {
			return nil, fmt.Errorf("encode %s for MCP: %w", name, err)
		}
		return ads.NewSet(&ads.Resource{Name: name, Version: r.Version, Body: body}), nil
	}
	return nil, nil
}
