package push

import (
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/quarantine"
	"github.com/pgmesh/pgmesh/kinds"
)

// proxyKind is the kind of a problem that is a proxy's, and no resource's.
var proxyKind = &kinds.Kind{Name: "Proxy"}

// refusing logs that a proxy refuses more listeners than before. The log has it even though the
// rest of the proxy works: without the inbound listener, nothing would check what comes to the
// workload.
func (e *Engine) refusing(s *ads.Stream, typeURL string) {
	if typeURL != ListenerType {
		return
	}
	refused := refusedOf(s, typeURL)
	e.mu.Lock()
	defer e.mu.Unlock()
	m := e.members[s.Subscriber()]
	if m == nil {
		return
	}
	for _, r := range refused {
		if !slices.ContainsFunc(m.refused, func(before quarantine.Refused) bool { return before.Name == r.Name }) {
			e.log.Error("a proxy refuses a listener; "+withoutListener(r), "proxy", s.Node().GetId(), "namespace", m.proxy.Namespace, "listener", r.Name, "reason", r.Reason)
		}
	}
	m.refused = refused
	e.turn++
}

// refusedOf returns the resources of a type that the client of a stream refuses.
func refusedOf(s *ads.Stream, typeURL string) []quarantine.Refused {
	for _, t := range s.Types() {
		if t.TypeURL == typeURL {
			return t.Refused
		}
	}
	return nil
}

// withoutListener says what it means for the workload that a proxy refuses a listener.
func withoutListener(r quarantine.Refused) string {
	if r.Name == naming.VirtualInbound {
		return "by it comes in what is redirected to the workload, with mutual TLS and the policies: unless the proxy has an older one, nothing comes in. Correct what the reason names"
	}
	return "it goes on with the one that it had, or does without. Correct what the reason names"
}

// refusedListeners counts them. The caller holds the lock.
func (e *Engine) refusedListeners() (n int) {
	for _, m := range e.members {
		n += len(m.refused)
	}
	return n
}

// refusedByProxies lists the listeners that proxies refuse.
func (e *Engine) refusedByProxies() (out []Problem) {
	for _, m := range e.members {
		for _, r := range m.refused {
			out = append(out, Problem{Code: Refused, At: m.proxy.ID, Problem: mesh.Problem{
				Of:   kinds.Key{Kind: proxyKind, Namespace: m.proxy.Namespace, Name: m.proxy.ID},
				Path: r.Name, Reason: fmt.Sprintf("it refuses the listener %s: %s; %s", r.Name, r.Reason, withoutListener(r)),
			}})
		}
	}
	return out
}
