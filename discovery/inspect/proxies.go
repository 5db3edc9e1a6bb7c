package inspect

import (
	"net/http"
	"time"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/ads"
)

// shownProxy is a stream to a proxy.
type shownProxy struct {
	Proxy     string    `json:"proxy"`
	Node      string    `json:"node"`
	Role      string    `json:"role"`
	Namespace string    `json:"namespace"`
	Address   string    `json:"address"` // where it connected from
	Form      string    `json:"form"`    // delta or sotw
	Envoy     string    `json:"envoy,omitempty"`
	Connected time.Time `json:"connected"`
	Class     string    `json:"class,omitempty"`
	OnDemand  bool      `json:"on_demand,omitempty"` // it is given only what it asked for

	// Warnings say what was left out of its metadata.
	Warnings []string `json:"warnings,omitempty"`
	// Current says that it has accepted the newest of everything that concerns it.
	Current bool `json:"current"`
	// Revision is the one that it is being brought to, or was brought to last, and Newest the one
	// that comes next.
	Revision string      `json:"revision,omitempty"`
	Newest   string      `json:"newest,omitempty"`
	Stage    *shownStage `json:"stage,omitempty"` // while a change is on its way
	Types    []shownType `json:"types"`
}

// shownStage is how far a change has come on its way to a proxy.
type shownStage struct {
	At    int       `json:"at"`
	Of    int       `json:"of"`
	Since time.Time `json:"since"`
}

// status sums up the state of a type.
type status string

const (
	synced status = "synced" // it has accepted the newest
	stale  status = "stale"  // there is something newer than what it has accepted
	nacked status = "nacked" // it refuses something
)

// shownType is the state of one type.
type shownType struct {
	Type      string       `json:"type"`
	Status    status       `json:"status"`
	Resources int          `json:"resources"`         // how many it has
	Sent      *shownSent   `json:"sent,omitempty"`    // last
	Acked     *shownAnswer `json:"acked,omitempty"`   // last
	Nacked    *shownAnswer `json:"nacked,omitempty"`  // last, even if it has accepted something since
	Pending   bool         `json:"pending,omitempty"` // it has not answered the last message

	// Refused are the resources that it refuses while it has everything else. InDoubt counts those
	// that are still being tried.
	Refused []shownRefused `json:"refused,omitempty"`
	InDoubt int            `json:"in_doubt,omitempty"`
}

// shownRefused is a refused resource. The proxy goes on with the version that it last accepted, if
// there was one.
type shownRefused struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Reason  string    `json:"reason"`
	Since   time.Time `json:"since"`
}

type shownSent struct {
	Revision  string    `json:"revision"`
	At        time.Time `json:"at"`
	Resources int       `json:"resources"`
	Removed   int       `json:"removed"`
	Bytes     int       `json:"bytes"`
}

type shownAnswer struct {
	Revision string    `json:"revision"`
	At       time.Time `json:"at"`
	Reason   string    `json:"reason,omitempty"`
}

func (i *Inspector) proxiesPage(r *http.Request) (any, error) {
	all := i.clients()
	if name := r.URL.Query().Get("proxy"); name != "" {
		found, err := of(name, all)
		if err != nil {
			return nil, err
		}
		all = found
	}
	list := make([]shownProxy, 0, len(all))
	for _, c := range all {
		list = append(list, c.show())
	}
	return list, nil
}

func (c client) show() shownProxy {
	state := c.stream.State()
	p := shownProxy{
		Proxy: c.id(), Node: c.stream.Node().GetId(), Role: string(c.Proxy.Type), Namespace: c.Proxy.Namespace, Address: c.stream.Peer(),
		Form: formOf(c.stream), Envoy: mesh.EnvoyVersion(c.stream.Node()), Connected: c.stream.Since(), Class: c.Class, OnDemand: c.OnDemand, Warnings: c.Proxy.Warnings,
		Current: c.snapshot != nil, Revision: state.Revision, Newest: state.Newest, Types: []shownType{},
	}
	if state.Stage > 0 {
		p.Stage = &shownStage{state.Stage, state.Stages, state.Since}
	}
	for _, t := range c.stream.Types() {
		one := showType(t)
		if c.snapshot == nil { // it is to be sent everything once there is a configuration
			one.Status = stale
		}
		p.Current = p.Current && one.Status == synced
		p.Types = append(p.Types, one)
	}
	return p
}

func formOf(s *ads.Stream) string {
	if s.Incremental() {
		return "delta"
	}
	return "sotw"
}

func showType(t ads.TypeState) shownType {
	shown := shownType{Type: nameOfType(t.TypeURL), Status: statusOf(t), Resources: t.Has.Len(), Pending: t.Unanswered, InDoubt: t.InDoubt}
	if t.Sent != (ads.Sent{}) {
		shown.Sent = &shownSent{t.Sent.Revision, t.Sent.At, t.Sent.Resources, t.Sent.Removed, t.Sent.Bytes}
	}
	for _, r := range t.Refused {
		shown.Refused = append(shown.Refused, shownRefused{r.Name, r.Version, reason(t.TypeURL, r.Reason), r.Since})
	}
	shown.Acked, shown.Nacked = showAnswer(t, t.Accepted), showAnswer(t, t.Rejected)
	return shown
}

func showAnswer(t ads.TypeState, a ads.Answer) *shownAnswer {
	if a == (ads.Answer{}) {
		return nil
	}
	return &shownAnswer{a.Revision, a.At, reason(t.TypeURL, a.Reason)}
}

// statusOf goes by what the proxy refuses now. An earlier refusal does not matter once the resource
// is gone, or is again as the proxy has it.
func statusOf(t ads.TypeState) status {
	switch {
	case len(t.Refused) > 0, t.InDoubt > 0:
		return nacked
	case t.Unanswered || t.Behind:
		return stale
	}
	return synced
}

// nameOfType is a type's name on the pages, or its URL if discovery does not serve the type.
func nameOfType(typeURL string) string {
	for _, s := range sections {
		if s.typeURL == typeURL {
			return s.name
		}
	}
	return typeURL
}
