package push

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
)

// denials logs and counts secrets that proxies ask for and are not given. A listener that waits for
// such a secret accepts connections and closes them, and nothing at the proxy says why.
type denials struct {
	count *prometheus.CounterVec
	tell  rate.Sometimes
}

func newDenials(metrics prometheus.Registerer) *denials {
	d := &denials{
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_discovery_secrets_denied_total",
			Help: "Names of secrets that proxies asked for and were not given: unknown; forbidden, to this proxy; incomplete, without the part that was asked for.",
		}, []string{"reason"}),
		tell: rate.Sometimes{First: 20, Interval: time.Second},
	}
	metrics.MustRegister(d.count)
	return d
}

// absent notes that a proxy asked for a name that it is not given.
func (e *Engine) absent(s *ads.Stream, typeURL, name string) { e.deny(s, typeURL, name, false) }

// taken notes that a proxy is not given a name any more. One that is gone altogether may go together
// with the listener that needs it, and where something still names it that is a problem already.
func (e *Engine) taken(s *ads.Stream, typeURL, name string) { e.deny(s, typeURL, name, true) }

// deny notes that a proxy is not given a name that it asks for.
func (e *Engine) deny(s *ads.Stream, typeURL, name string, had bool) {
	if typeURL != SecretType {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	asking := e.members[s.Subscriber()]
	if asking == nil {
		return
	}
	proxy := asking.proxy
	reason, hint := e.mesh.WhyNot(proxy, name)
	if had && reason == mesh.UnknownSecret {
		return
	}
	if asking.denied == nil {
		asking.denied = map[string]bool{}
	}
	if !asking.denied[name] {
		asking.denied[name] = true
		e.turn++
	}
	e.denials.count.WithLabelValues(reason).Inc()
	e.denials.tell.Do(func() {
		e.log.Warn("a proxy asks for a secret that it is not given; connections that need it are refused, or use the one that it had", "proxy", s.Node().GetId(),
			"namespace", proxy.Namespace, "secret", name, "reason", reason, "hint", hint)
	})
}

// dropped notes that a proxy no longer asks for a name.
func (e *Engine) dropped(s *ads.Stream, typeURL, name string) {
	if typeURL != SecretType {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if asking := e.members[s.Subscriber()]; asking != nil && asking.denied[name] {
		delete(asking.denied, name)
		e.turn++
	}
}

// denied lists the secrets that proxies ask for and are not given at the moment.
func (e *Engine) denied() (out []Problem) {
	for _, m := range e.members {
		for name := range m.denied {
			if m.class.sets[SecretType].Get(name) != nil {
				continue
			}
			reason, hint := e.mesh.WhyNot(m.proxy, name)
			out = append(out, Problem{Code: SecretDenied, At: m.proxy.ID, Problem: mesh.Problem{
				Of:     mesh.SecretNamed(m.proxy, name),
				Reason: fmt.Sprintf("%s is %s: %s", name, reason, hint),
			}})
		}
	}
	return out
}

// tellUnusable logs changed secrets that cannot be used. Nothing checked that where they were
// written.
func (e *Engine) tellUnusable(step configstore.Step) {
	for _, edit := range step.Edits(kinds.Secret) {
		if edit.After == nil {
			continue
		}
		if problem := e.mesh.ProblemOfSecret(edit.After); problem != "" {
			e.invalid.Inc()
			e.log.Error("a secret cannot be used", "secret", edit.After.Key().FullName(), "revision", e.revision, "error", problem)
		}
	}
}
