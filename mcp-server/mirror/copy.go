package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/internal/kit/terse"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/kinds"
	joined "github.com/pgmesh/pgmesh/mcp-server/registries"
	"github.com/pgmesh/pgmesh/mcp-server/writeback"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/registries"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// What one transaction writes at most, and what is told of a registry at most.
const (
	mostEntries = 200
	mostBytes   = 1 << 20
	mostListed  = 1000
	mostBad     = 200
	mostText    = 500
)

// keepUp mirrors a registry that was claimed, until another server has it.
func (m *Mirror) keepUp(ctx context.Context, keeper *rollout.Keeper, t *joined.Trail, w *writeback.Writer) error {
	defer t.End()
	m.mine.WithLabelValues(t.Name()).Set(1)
	begun := false
	for {
		status := t.Status()
		if known := status.Read || status.Resources > 0; known && !begun {
			if err := m.begin(ctx, t); err != nil {
				return err
			}
			begun = true
		}
		more, mine, err := m.write(ctx, keeper, t, &status)
		if err != nil || !mine {
			return err
		}
		wrote := time.Now()
		w.Nudge()
		if more {
			continue
		}
		select {
		case <-t.Moved():
		case <-ctx.Done():
			return ctx.Err()
		}
		if !wait.For(ctx, pause-time.Since(wrote)) {
			return ctx.Err()
		}
	}
}

// begin finds what differs between a registry and its mirror.
func (m *Mirror) begin(ctx context.Context, t *joined.Trail) error {
	t.Begin()
	var after registries.Key
	for {
		listed, err := m.store.Entries(ctx, t.Name(), after, mostListed)
		if err != nil {
			return err
		}
		for _, e := range listed {
			if kind, known := kindOf(e.Key); known { // a newer server has kinds that this one does not know
				t.Has(kinds.Key{Kind: kind, Namespace: e.Namespace, Name: e.Name}, e.Version)
			}
		}
		if len(listed) < mostListed {
			return nil
		}
		after = listed[len(listed)-1].Key
	}
}

// write writes the next changes, with how the registry is.
func (m *Mirror) write(ctx context.Context, keeper *rollout.Keeper, t *joined.Trail, status *joined.Status) (more, mine bool, err error) {
	changes, more := t.Take(mostEntries, mostBytes)
	c := registries.Changes{State: stateOf(status)}
	for _, change := range changes {
		if change.Resource == nil {
			c.Gone = append(c.Gone, keyOf(change.Key))
			continue
		}
		entry, err := entryOf(change)
		if err != nil {
			m.log.Error("a resource of a registry cannot be shown in mesh.services; it is served all the same", "registry", t.Name(), "resource", change.Key.String(), "error", err)
			continue
		}
		c.Entries = append(c.Entries, entry)
	}
	mine, err = m.writeAll(ctx, keeper, t.Name(), c)
	return more, mine, err
}

// writeAll writes changes. Where the database refuses some, it finds which, and writes the others.
func (m *Mirror) writeAll(ctx context.Context, keeper *rollout.Keeper, registry string, c registries.Changes) (mine bool, err error) {
	mine, err = m.store.Write(ctx, keeper, registry, c)
	if err == nil || ctx.Err() != nil || store.Temporary(err) || len(c.Entries) == 0 {
		return mine, err
	}
	if len(c.Entries) == 1 {
		e := c.Entries[0]
		m.log.Error("the database does not take a resource of a registry, so mesh.services does not show it as it is; it is served all the same",
			"registry", registry, "resource", fmt.Sprintf("%s %s/%s", e.Kind, e.Namespace, e.Name), "error", err)
		c.Entries = nil
		return m.store.Write(ctx, keeper, registry, c)
	}
	rest := c
	c.Entries, rest.Entries, rest.Gone = c.Entries[:len(c.Entries)/2], c.Entries[len(c.Entries)/2:], nil
	if mine, err = m.writeAll(ctx, keeper, registry, c); err != nil || !mine {
		return mine, err
	}
	return m.writeAll(ctx, keeper, registry, rest)
}

func stateOf(s *joined.Status) registries.State {
	state := registries.State{Read: s.Read, AllBad: len(s.Bad), Stale: store.NullTime(s.Stale.Truncate(time.Microsecond))}
	if s.Error != nil {
		state.Reason = terse.Kept(s.Error.Error(), mostText)
	}
	for _, b := range s.Bad[:min(len(s.Bad), mostBad)] {
		bad := registries.Bad{Entry: terse.Kept(b.Entry, mostText), Reason: terse.Kept(b.Reason, mostText)}
		if b.Key.Kind != nil {
			key := keyOf(b.Key)
			bad.Key = &key
		}
		state.Bad = append(state.Bad, bad)
	}
	return state
}

func kindOf(k registries.Key) (_ *kinds.Kind, known bool) {
	if k.Group == kinds.Secret.Group && k.Kind == kinds.Secret.Name {
		return kinds.Secret, true
	}
	return kinds.Lookup(k.Group, k.Kind)
}

func keyOf(k kinds.Key) registries.Key {
	return registries.Key{Kind: k.Kind.Name, Group: k.Kind.Group, Namespace: k.Namespace, Name: k.Name}
}

// entryOf reads a resource as it is served.
func entryOf(c joined.Change) (e registries.Entry, err error) {
	r, err := kinds.FromAny(c.Key.Kind, c.Key.FullName(), c.Resource.Body)
	if err != nil {
		return e, err
	}
	e = registries.Entry{Key: keyOf(c.Key), Version: c.Resource.Version, Labels: r.Labels, Annotations: r.Annotations}
	if !r.CreateTime.IsZero() {
		e.Created = &r.CreateTime
	}
	if c.Key.Kind == kinds.Secret {
		e.Spec, err = aboutSecret(r)
		return e, err
	}
	if e.Spec, err = r.SpecJSON(); err == nil && len(e.Spec) == 0 {
		err = errors.New("it has no spec")
	}
	return e, err
}

// aboutSecret is what SQL shows of a secret of a registry.
func aboutSecret(r *kinds.Resource) (json.RawMessage, error) {
	spec, is := r.Spec.Message().(*mcpv1.Secret)
	if !is {
		return nil, fmt.Errorf("%s is no secret", r.Key())
	}
	about := struct {
		Type            string     `json:"type"`
		ServiceAccounts []string   `json:"serviceAccounts"`
		NotBefore       *time.Time `json:"notBefore,omitempty"`
		NotAfter        *time.Time `json:"notAfter,omitempty"`
	}{Type: spec.GetType(), ServiceAccounts: spec.GetServiceAccounts()}
	if from, until := credential.Validity(spec.GetData()); !until.IsZero() {
		about.NotBefore, about.NotAfter = &from, &until
	}
	return json.Marshal(about)
}
