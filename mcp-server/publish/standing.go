package publish

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/stamp"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// newID makes the id that a server has until it ends.
func newID() string { return rand.Text()[:16] }

// standing is the resource by which clients are told of the source. It stays the same while there is no news.
func (p *Publisher) standing() *ads.Set {
	m := &mcpv1.Standing{
		Mesh: p.source.Mesh, StaleSince: stamp.Of(p.source.Stale), Saved: p.source.Saved, Path: append([]string{p.id}, p.source.Path...),
	}
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("a message of strings and times always encodes: %v", err))
	}
	sum := sha256.Sum256(value)
	p.told = p.told.With([]*ads.Resource{{
		Name: mcpv1.StandingName, Version: hex.EncodeToString(sum[:8]),
		Body: &anypb.Any{TypeUrl: "type.googleapis.com/" + string(m.ProtoReflect().Descriptor().FullName()), Value: value},
	}}, nil)
	return p.told
}

// ID is this server's in the path of those that follow it.
func (p *Publisher) ID() string { return p.id }

// describe says for people what is served, if it may not be the newest.
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
