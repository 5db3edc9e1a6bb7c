package relay

import (
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mesh-agent/wasm/plugin"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

// request looks at a request of Envoy's, and returns what discovery gets of it, nil for nothing:
// the answer to an incomplete response waits.
func (p *plugins) request(m *message, r *wire.Request) *message {
	if p == nil || r == nil || r.TypeURL != plugin.Type {
		return m
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.subscribes(r)
	nonce, second := strings.CutSuffix(r.Nonce, secondNonce)
	at := slices.IndexFunc(p.held, func(h *heldAnswer) bool { return h.nonce == nonce })
	if nonce != "" && at >= 0 {
		p.skipped(p.held[:at])
		p.accepted(r.Nonce, !r.Refused)
		p.held[at].answered(r)
		p.changed()
		return p.withoutAnswer(r)
	}
	p.accepted(r.Nonce, !r.Refused)
	if nonce != "" {
		p.nonce = nonce
	}
	if r.Version != "" {
		p.version = r.Version
	}
	if !second {
		return m
	}
	// The answer went to discovery already. In the SotW form, this is a change of the subscription.
	if p.stream.form == wire.Delta {
		return p.withoutAnswer(r)
	}
	return &message{(&wire.Request{TypeURL: r.TypeURL, Names: r.Names, Nonce: nonce, Version: r.Version}).Encode(wire.SotW, nil)}
}

// skipped notes that Envoy has answered later responses: in the SotW form it need not answer each.
func (p *plugins) skipped(earlier []*heldAnswer) {
	for _, h := range earlier {
		if h.awaits != "" {
			p.accepted(h.awaits, true)
			h.awaits = ""
		}
	}
}

// answered notes Envoy's answer, if it is to what is awaited.
func (h *heldAnswer) answered(r *wire.Request) {
	if h.awaits != r.Nonce {
		return
	}
	h.awaits = ""
	if r.Refused {
		h.refusals = append(h.refusals, r.Reason)
	}
}

// withoutAnswer is what else there is in a request than an answer, nil for nothing. In the SotW
// form that travels with the answer.
func (p *plugins) withoutAnswer(r *wire.Request) *message {
	if p.stream.form == wire.SotW || len(r.Subscribe)+len(r.Unsubscribe) == 0 {
		return nil
	}
	return &message{(&wire.Request{TypeURL: r.TypeURL, Subscribe: r.Subscribe, Unsubscribe: r.Unsubscribe}).Encode(wire.Delta, nil)}
}

// subscribes notes what Envoy has, wants, and wants no more.
func (p *plugins) subscribes(r *wire.Request) {
	r.Versions(func(name, version string) {
		if !plugin.IsStandIn(version) {
			p.has[name] = version
		}
	})
	gone := r.Unsubscribe
	if p.stream.form == wire.SotW {
		for _, name := range p.names {
			if !slices.Contains(r.Names, name) {
				gone = append(gone, name)
			}
		}
		p.names = r.Names
	}
	for _, name := range gone {
		p.forget(name)
		delete(p.has, name)
	}
}
