package relay

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pgmesh/pgmesh/mesh-agent/lastgood"
	"github.com/pgmesh/pgmesh/mesh-agent/wire"
)

const typePrefix = "type.googleapis.com/"

// Types of which Envoy waits for what it has asked for by name, before it goes on with anything.
const (
	endpoints    = typePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	routes       = typePrefix + "envoy.config.route.v3.RouteConfiguration"
	virtualHosts = typePrefix + "envoy.config.route.v3.VirtualHost"
)

// keeper answers an Envoy from what was kept. It gives what Envoy lacks, and changes nothing that Envoy has.
type keeper struct {
	form  wire.Form
	kept  *lastgood.Store
	types map[string]*asked
	nonce int
}

// asked is what Envoy has asked for of a type.
type asked struct {
	names []string // of a state of the world
	nonce string   // of what it was answered last
}

func newKeeper(form wire.Form, kept *lastgood.Store) *keeper {
	return &keeper{form: form, kept: kept, types: map[string]*asked{}}
}

// lacks tells whether Envoy wants something that it has not, and that was kept.
func (k *keeper) lacks(said []*message) bool {
	for _, m := range said {
		r, err := wire.ParseRequest(k.form, m.bytes)
		if err != nil {
			continue
		}
		names, all := wanted(k.form, r)
		switch {
		case r.Version != "" || all && r.Held > 0:
		case all && k.kept.Has(r.TypeURL):
			return true
		case len(names) > 0 && k.kept.Has(r.TypeURL, names...):
			return true
		}
	}
	return false
}

// wanted is what a request adds to what Envoy wants, but for what it has: all of the type, or some names.
func wanted(form wire.Form, r *wire.Request) (names []string, all bool) {
	names = r.Names
	if form == wire.Delta {
		names = r.Subscribe
	}
	if len(names) == 0 || slices.Contains(names, "*") {
		return nil, r.Nonce == ""
	}
	if r.Held == 0 {
		return names, false
	}
	held := map[string]bool{}
	r.Versions(func(name, _ string) { held[name] = true })
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return held[name] }), false
}

// answer is what Envoy is told; nil for nothing. Refused is why Envoy does not take what it was given.
func (k *keeper) answer(m *message) (out *message, refused string) {
	r, err := wire.ParseRequest(k.form, m.bytes)
	if err != nil {
		return nil, ""
	}
	before := k.types[r.TypeURL]
	if before == nil {
		before = &asked{}
		k.types[r.TypeURL] = before
	}
	if r.Refused {
		refused = r.Reason
	}
	names, all := wanted(k.form, r)
	if k.form == wire.SotW {
		if r.Version != "" && before.nonce == "" {
			return nil, refused // it has something, from before
		}
		if before.nonce != "" && (r.Nonce != before.nonce || slices.Equal(before.names, r.Names)) {
			return nil, refused
		}
		before.names, all = r.Names, len(names) == 0
	}
	if len(names) == 0 && (!all || r.Held > 0 || !k.kept.Has(r.TypeURL)) {
		return nil, refused
	}
	response := k.response(r.TypeURL, names, all)
	if len(response.Resources) == 0 && !all {
		return nil, refused
	}
	before.nonce = response.Nonce
	return &message{response.Encode(k.form)}, refused
}

func (k *keeper) response(typeURL string, names []string, all bool) *wire.Response {
	k.nonce++
	out := &wire.Response{TypeURL: typeURL, Nonce: "kept-" + strconv.Itoa(k.nonce)}
	if all {
		out.Resources, out.Version = k.kept.All(typeURL)
		return out
	}
	asked := make(map[string]bool, len(names))
	for _, name := range names {
		asked[name] = true
	}
	out.Resources, out.Version = k.kept.Some(typeURL, func(name string) bool {
		if asked[name] {
			return true
		}
		// Virtual hosts are asked for by the route configuration that they are of.
		slash := strings.LastIndexByte(name, '/')
		return typeURL == virtualHosts && slash >= 0 && asked[name[:slash]]
	})
	for _, r := range out.Resources {
		delete(asked, r.Name)
	}
	if typeURL == endpoints || typeURL == routes {
		for name := range asked {
			out.Resources = append(out.Resources, empty(typeURL, name))
		}
	}
	return out
}

// empty stands for what could not be read any more: nothing, where Envoy would wait for ever. No discovery gives it its version.
func empty(typeURL, name string) wire.Resource {
	body := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	packed := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), typeURL)
	packed = protowire.AppendBytes(protowire.AppendTag(packed, 2, protowire.BytesType), body)
	return wire.Resource{Name: name, Version: "lost", Body: packed}
}

// keep answers Envoy from what was kept until a discovery is there again, and then ends the stream: Envoy comes back with what it has.
func (st *stream) keep(ctx context.Context, over chan struct{}) error {
	s := st.server
	status, changed := s.Discovery.Status()
	silent := status.Connected // it is there, and says nothing
	k := newKeeper(st.form, s.Kept)
	for _, m := range st.early.after(0) {
		if err := st.keepAnswer(k, m); err != nil {
			return err
		}
	}
	quiet := time.NewTimer(tryAgain)
	defer quiet.Stop()
	for {
		if status.Connected && !silent {
			return nil
		}
		silent = silent && status.Connected
		select {
		case m := <-st.said:
			quiet.Reset(tryAgain)
			if err := st.keepAnswer(k, m); err != nil {
				return err
			}
		case <-changed:
			status, changed = s.Discovery.Status()
		case <-quiet.C:
			if silent {
				return nil // with what it has it can wait for an answer
			}
		case <-over:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// tryAgain is when an Envoy that was given what was kept waits for a discovery again that is there and does not answer.
const tryAgain = 3 * time.Second

func (st *stream) keepAnswer(k *keeper, m *message) error {
	answer, refused := k.answer(m)
	if refused != "" {
		st.server.Log.Warn("Envoy refuses something of the last good configuration", "reason", refused)
	}
	if answer == nil {
		return nil
	}
	st.server.served()
	return st.down.SendMsg(answer)
}
