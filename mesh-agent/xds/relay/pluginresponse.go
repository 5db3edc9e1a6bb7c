package relay

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/wasm/plugin"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

// heldAnswer is an incomplete response. What is there was sent to Envoy at once,
// and the rest follows in a second response, when it is clear what there is of it.
type heldAnswer struct {
	nonce, version string
	missing        []*followed
	second         bool     // the second response was sent
	awaits         string   // the nonce of what Envoy has to answer, "" if it has answered
	refusals       []string // what Envoy refused, and what it could not be sent
	refused        []*followed
}

// secondNonce marks the nonces of second responses.
const secondNonce = "/rest"

// handles reports whether responses of a type may have plugins in them.
func (p *plugins) handles(typeURL string) bool { return p != nil && typeURL == plugin.Type }

// respond sends a response to Envoy, without plugins whose modules are missing.
func (p *plugins) respond(r *wire.Response) error {
	p.mu.Lock()
	h := &heldAnswer{nonce: r.Nonce, version: r.Version, awaits: r.Nonce}
	out := &rewriting{Response: *r, versions: versions{}}
	out.Removed, out.Resources = p.removed(r.Removed), make([]wire.Resource, 0, len(r.Resources))
	for _, one := range r.Resources {
		if !p.takenBack(one) {
			p.pass(h, one, out)
		}
	}
	if len(h.missing) > 0 || len(h.refusals) > 0 || len(p.held) > 0 {
		p.held = append(p.held, h)
	}
	p.sends(out.Nonce, out.versions)
	p.mu.Unlock()
	return p.stream.sendDown(&out.Response)
}

// rewriting is a response as Envoy gets it.
type rewriting struct {
	wire.Response

	versions versions // of what is as discovery wants it, but for the files of modules
}

func (w *rewriting) add(one wire.Resource, version string) {
	w.Resources = append(w.Resources, one)
	w.versions[one.Name] = version
}

// pass adds a resource to a response, or what there is of it, or else has it follow.
func (p *plugins) pass(h *heldAnswer, one wire.Resource, out *rewriting) {
	f := p.follow(one)
	if f == nil {
		out.add(one, versionOf(one))
		return
	}
	if now := p.outcomeOf(f); now.decided {
		p.include(h, f, now, out)
	} else {
		h.missing = append(h.missing, f)
	}
}

// include adds to a response what there is of a plugin.
func (p *plugins) include(h *heldAnswer, f *followed, now outcome, out *rewriting) {
	if now.path != "" {
		one, err := f.rewritten(now.path)
		if err == nil {
			out.add(one, f.version)
			return
		}
		now.reason = err.Error()
	}
	h.refusals, h.refused = append(h.refusals, "the Wasm plugin "+f.resource.Name+": "+now.reason), append(h.refused, f)
	instead, served := p.instead(f, now.late)
	f.told, f.refused = &refusal{reason: now.reason, served: served, at: time.Now()}, true
	for _, one := range instead {
		out.Resources = append(out.Resources, one)
		if !plugin.IsStandIn(one.Version) {
			out.versions[one.Name] = one.Version
		}
	}
}

// advance acts on what has changed: it sends Envoy what was missing, answers discovery, and asks it
// anew for plugins that have changed.
func (p *plugins) advance(ctx context.Context, up *discoveryStream) error {
	p.mu.Lock()
	down, requests := p.next()
	p.mu.Unlock()
	for _, r := range down {
		if err := p.stream.sendDown(r); err != nil {
			return err
		}
	}
	for _, r := range requests {
		select {
		case up.agentRequests <- &message{r.Encode(p.stream.form, nil)}:
		case <-ctx.Done():
			return nil
		}
	}
	return nil
}

func (p *plugins) next() (down []*wire.Response, up []*wire.Request) {
	for len(p.held) > 0 {
		h := p.held[0]
		if h.awaits != "" {
			return down, append(up, p.again()...)
		}
		if !h.second && len(h.missing) > 0 {
			rest := p.rest(h)
			if rest == nil {
				return down, append(up, p.again()...)
			}
			h.second = true
			if len(rest.Resources) > 0 {
				h.awaits = rest.Nonce
				p.sends(rest.Nonce, rest.versions)
				return append(down, &rest.Response), append(up, p.again()...)
			}
		}
		p.held = p.held[1:]
		up = append(up, p.answer(h))
	}
	return down, append(up, p.again()...)
}

// rest returns what was missing of a response, nil if that cannot be said yet.
func (p *plugins) rest(h *heldAnswer) *rewriting {
	out := &rewriting{Response: wire.Response{TypeURL: plugin.Type, Nonce: h.nonce + secondNonce, Version: h.version}, versions: versions{}}
	outcomes := make([]outcome, len(h.missing))
	for i, f := range h.missing {
		if outcomes[i] = p.outcomeOf(f); !outcomes[i].decided && p.followed[f.resource.Name] == f {
			return nil
		}
	}
	for i, f := range h.missing {
		if p.followed[f.resource.Name] == f { // else it is not wanted any more
			p.include(h, f, outcomes[i], out)
		}
	}
	return out
}

// answer is what discovery is told of a response.
func (p *plugins) answer(h *heldAnswer) *wire.Request {
	p.nonce = h.nonce
	out := &wire.Request{TypeURL: plugin.Type, Nonce: h.nonce, Names: p.names}
	if len(h.refusals) > 0 {
		out.Refused, out.Reason = true, strings.Join(h.refusals, "; ")
	} else {
		p.version = h.version
	}
	out.Version = p.version
	return out
}

// again asks discovery anew for plugins that have changed since it was told of them.
func (p *plugins) again() []*wire.Request {
	var names []string
	for name, f := range p.followed {
		if f.told == nil || p.isHeld(f) {
			continue
		}
		if now := p.outcomeOf(f); f.told.isOld(now) {
			names, f.told = append(names, name), nil
		}
	}
	if len(names) == 0 {
		return nil
	}
	slices.Sort(names)
	drop, want := &wire.Request{TypeURL: plugin.Type}, &wire.Request{TypeURL: plugin.Type}
	if p.stream.form == wire.Delta {
		drop.Unsubscribe, want.Subscribe = names, names
		return []*wire.Request{drop, want}
	}
	want.Names, want.Nonce, want.Version = p.names, p.nonce, p.version
	*drop = *want
	drop.Names = slices.DeleteFunc(slices.Clone(p.names), func(name string) bool { return slices.Contains(names, name) })
	return []*wire.Request{drop, want}
}

// askAgain is how long after a refusal discovery is asked anew in any case: it says nothing by
// itself when the plugin becomes again what Envoy has.
const askAgain = 10 * time.Minute

// isOld reports whether discovery was told something else than there is to tell.
func (r *refusal) isOld(now outcome) bool {
	return now.path != "" || now.reason != r.reason || now.late && !r.served || time.Since(r.at) > askAgain
}

// isHeld reports whether discovery has yet to be told of a plugin.
func (p *plugins) isHeld(f *followed) bool {
	return slices.ContainsFunc(p.held, func(h *heldAnswer) bool { return slices.Contains(h.refused, f) })
}
