package relay

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/pgmesh/pgmesh/mesh-agent/wasm/plugin"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/lastgood"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

const typePrefix = "type.googleapis.com/"

// Types for which Envoy waits until it has every name it asked for.
const (
	endpoints    = typePrefix + "envoy.config.endpoint.v3.ClusterLoadAssignment"
	routes       = typePrefix + "envoy.config.route.v3.RouteConfiguration"
	virtualHosts = typePrefix + "envoy.config.route.v3.VirtualHost"
)

// fallback answers Envoy from the last good configuration. It sends what Envoy lacks and never
// changes what Envoy has.
type fallback struct {
	form  wire.Form
	kept  *lastgood.Store
	types map[string]*subscription
	nonce int
}

// subscription is what Envoy has asked for of a type.
type subscription struct {
	names []string // SotW only
	nonce string   // of the last response
}

func newFallback(form wire.Form, kept *lastgood.Store) *fallback {
	return &fallback{form: form, kept: kept, types: map[string]*subscription{}}
}

// lacks reports whether Envoy asks for something that it lacks and the store has.
func (k *fallback) lacks(requests []*message) bool {
	for _, m := range requests {
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

// wanted returns what a request adds to the subscription, without what Envoy has: the whole type,
// or names.
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

// answer returns the response to a request, nil for none. If Envoy has refused the last response,
// refused is its reason.
func (k *fallback) answer(m *message) (out *message, refused string) {
	r, err := wire.ParseRequest(k.form, m.bytes)
	if err != nil {
		return nil, ""
	}
	before := k.types[r.TypeURL]
	if before == nil {
		before = &subscription{}
		k.types[r.TypeURL] = before
	}
	if r.Refused {
		refused = r.Reason
	}
	names, all := wanted(k.form, r)
	if k.form == wire.SotW {
		if r.Version != "" && before.nonce == "" {
			return nil, refused // Envoy has the type from an earlier stream
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

// response returns what is kept of a type: all of it, or what has one of these names. Endpoints and
// routes that are not kept are sent empty, as Envoy waits until it has every name.
func (k *fallback) response(typeURL string, names []string, all bool) *wire.Response {
	k.nonce++
	out := &wire.Response{TypeURL: typeURL, Nonce: "kept-" + strconv.Itoa(k.nonce)}
	if all {
		out.Resources, out.Version = k.kept.All(typeURL)
		replaceLost(typeURL, out.Resources)
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
		// Virtual hosts are asked for by the name of their route configuration.
		slash := strings.LastIndexByte(name, '/')
		return typeURL == virtualHosts && slash >= 0 && asked[name[:slash]]
	})
	replaceLost(typeURL, out.Resources)
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

// replaceLost has stand-ins for Wasm plugins whose modules somebody removed from this machine.
func replaceLost(typeURL string, resources []wire.Resource) {
	if typeURL != plugin.Type {
		return
	}
	for i := range resources {
		one := &resources[i]
		if path := plugin.File(one.Body); path == "" || isThere(path) {
			continue
		}
		if body, version, err := plugin.StandInFor(one.Body); err == nil {
			one.Body, one.Version = body, version
		}
	}
}

// empty replaces a resource that could not be read, as Envoy would wait for it forever. Discovery
// uses no such version, so it will send the resource again.
func empty(typeURL, name string) wire.Resource {
	body := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), name)
	packed := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), typeURL)
	packed = protowire.AppendBytes(protowire.AppendTag(packed, 2, protowire.BytesType), body)
	return wire.Resource{Name: name, Version: "lost", Body: packed}
}

// serveLastGood answers Envoy from the store until a discovery answers. Then it ends the stream,
// and Envoy reconnects with what it has.
func (st *stream) serveLastGood(ctx context.Context, envoyGone chan struct{}) error {
	s := st.server
	status, changed := s.Discovery.Status()
	unresponsive := status.Connected // connected, but it does not answer
	k := newFallback(st.form, s.Kept)
	for _, m := range st.replay.from(0) {
		if err := st.answerLastGood(k, m); err != nil {
			return err
		}
	}
	quiet := time.NewTimer(quietPeriod)
	defer quiet.Stop()
	for {
		if status.Connected && !unresponsive {
			return nil
		}
		unresponsive = unresponsive && status.Connected
		select {
		case m := <-st.requests:
			quiet.Reset(quietPeriod)
			if err := st.answerLastGood(k, m); err != nil {
				return err
			}
		case <-changed:
			status, changed = s.Discovery.Status()
		case <-quiet.C:
			if unresponsive {
				return nil // Envoy now has enough to wait for an answer
			}
		case <-envoyGone:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// quietPeriod is how long Envoy has to be quiet before it is handed back to a discovery that is
// connected but did not answer.
const quietPeriod = 3 * time.Second

func (st *stream) answerLastGood(k *fallback, m *message) error {
	answer, refused := k.answer(m)
	if refused != "" {
		st.server.Log.Warn("Envoy refuses something of the last good configuration", "reason", refused)
	}
	if answer == nil {
		return nil
	}
	st.server.markLastGood()
	return st.down.SendMsg(answer)
}
