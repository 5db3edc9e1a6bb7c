package publish

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// newID returns this server's id, which is new for each start.
func newID() string { return rand.Text()[:16] }

// standing returns the resource that tells clients about the source. It stays the same while that
// does.
func (p *Publisher) standing() *served.Set {
	m := &mcpv1.Standing{
		Mesh: p.source.Mesh, StaleSince: stamp.Of(p.source.Stale), Saved: p.source.Saved, Path: append([]string{p.id}, p.source.Path...),
		Registries: p.registries(),
	}
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a message of strings and times always encodes: %v", err))
	}
	sum := sha256.Sum256(value)
	p.standingSet = p.standingSet.With([]*served.Resource{{
		Name: mcpv1.StandingName, Version: hex.EncodeToString(sum[:8]),
		Body: &anypb.Any{TypeUrl: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()), Value: value},
	}}, nil)
	return p.standingSet
}

// ID returns this server's id in the paths of its followers.
func (p *Publisher) ID() string { return p.id }

// describe says for people how old the served state is; "" if it is the newest.
func (p *Publisher) describe() string {
	if p.source.Stale.IsZero() {
		return ""
	}
	how := "the newest of"
	if p.source.Saved {
		how = "saved"
	}
	text := fmt.Sprintf("serving revision %d, %s %s", p.at.Revision, how, p.source.Stale.UTC().Format(time.RFC3339))
	if p.source.Err != nil {
		text += "; " + p.source.Err.Error()
	}
	return text
}
