package relay

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
)

// refusals are what Envoy refuses on one of its streams, until it accepts that or need not have it.
// A new stream begins without any: discovery sends again what Envoy lacks, and Envoy refuses it again.
type refusals struct {
	form wire.Form

	mu    sync.Mutex
	types map[string]*refusedType
}

// refusedType is what is refused of a type.
type refusedType struct {
	offers  []offered         // responses that Envoy has not answered, the oldest first
	reasons map[string]string // by the resource; that of "" is about the type as a whole
}

// offered is a response, by what it sends and what it removes.
type offered struct {
	nonce string
	names []string
}

// maxUnanswered bounds the unanswered responses of a type. Envoy answers the last, or all in turn.
const maxUnanswered = 16

func newRefusals(form wire.Form) *refusals {
	return &refusals{form: form, types: map[string]*refusedType{}}
}

// response notes what Envoy is sent.
func (r *refusals) response(m *wire.Response) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.types[m.TypeURL]
	if t == nil {
		t = &refusedType{reasons: map[string]string{}}
		r.types[m.TypeURL] = t
	}
	names := slices.Clone(m.Removed)
	for _, one := range m.Resources {
		names = append(names, one.Name)
	}
	if t.offers = append(t.offers, offered{m.Nonce, names}); len(t.offers) > maxUnanswered {
		t.offers = t.offers[1:]
	}
}

// request notes what Envoy answers.
func (r *refusals) request(m *wire.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.types[m.TypeURL]
	if t == nil {
		return
	}
	maps.DeleteFunc(t.reasons, func(name, _ string) bool {
		return name != "" && (slices.Contains(m.Unsubscribe, name) || len(m.Names) > 0 && !slices.Contains(m.Names, name) && !slices.Contains(m.Names, "*"))
	})
	at := slices.IndexFunc(t.offers, func(o offered) bool { return o.nonce == m.Nonce })
	if at < 0 {
		return
	}
	names := t.offers[at].names
	t.offers = slices.Delete(t.offers, at, at+1)
	if m.Refused {
		t.refuse(names, m.Reason)
		return
	}
	if r.form == wire.SotW && listsAll(m.TypeURL) {
		clear(t.reasons)
	}
	delete(t.reasons, "")
	for _, name := range names {
		delete(t.reasons, name)
	}
}

// listsAll reports whether a response of the SotW protocol has every resource of the type.
func listsAll(typeURL string) bool {
	return strings.HasSuffix(typeURL, ".Listener") || strings.HasSuffix(typeURL, ".Cluster")
}

// refuse notes what a reason is about. Envoy takes the others of the response.
func (t *refusedType) refuse(names []string, reason string) {
	reason, named := oneLine(reason), false
	for _, name := range names {
		if delete(t.reasons, name); name != "" && strings.Contains(reason, name) {
			t.reasons[name], named = reason, true
		}
	}
	if delete(t.reasons, ""); !named {
		t.reasons[""] = reason
	}
}

// trouble says what Envoy refuses now, with what to do; "" for nothing.
func (r *refusals) trouble() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []string
	for _, typeURL := range slices.Sorted(maps.Keys(r.types)) {
		for _, reason := range slices.Compact(slices.Sorted(maps.Values(r.types[typeURL].reasons))) {
			all = append(all, "Envoy refuses a "+typeURL[strings.LastIndexByte(typeURL, '.')+1:]+": "+reason+". "+advice(reason))
		}
	}
	return strings.Join(all, "; ")
}

var cannotBind = regexp.MustCompile(`cannot bind '([^']+)': Address already in use`)

func advice(reason string) string {
	if at := cannotBind.FindStringSubmatch(reason); at != nil {
		return "Another program has " + at[1] + ", probably the application itself: have Envoy listen elsewhere, by a Sidecar with ingress (docs/machines.md) or " +
			"by redirecting traffic (docs/redirection.md), or move that program"
	}
	return "mcp-client proxy-status says of which resource that is"
}

// oneLine has the lines of Envoy's messages in one.
func oneLine(text string) string {
	return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")
}
