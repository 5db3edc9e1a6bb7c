package kubernetes

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
)

// hasOwnShape reports whether the status of a kind has the shape of the Gateway API.
func hasOwnShape(kind *kinds.Kind) bool {
	return kind.Group == "gateway.networking.k8s.io" || kind.Name == "XBackendTrafficPolicy" || isPool(kind)
}

// statusObject is the part of a status that is read.
type statusObject struct {
	Conditions []json.RawMessage `json:"conditions,omitempty"`
	*ownStatus
}

// ownStatus is what statuses of the Gateway API have beside conditions.
type ownStatus struct {
	Parents              []json.RawMessage `json:"parents,omitempty"`
	Ancestors            []json.RawMessage `json:"ancestors,omitempty"`
	Listeners            []json.RawMessage `json:"listeners,omitempty"`
	Addresses            json.RawMessage   `json:"addresses,omitempty"`
	AttachedListenerSets json.RawMessage   `json:"attachedListenerSets,omitempty"`
	SupportedFeatures    json.RawMessage   `json:"supportedFeatures,omitempty"`
}

// UnmarshalJSON takes any status: one of another shape has nothing.
func (s *statusObject) UnmarshalJSON(text []byte) error {
	var read struct {
		Conditions []json.RawMessage `json:"conditions"`
		ownStatus
	}
	if json.Unmarshal(text, &read) == nil {
		s.Conditions = read.Conditions
		if read.has() {
			s.ownStatus = &read.ownStatus
		}
	}
	return nil
}

// has reports whether there is anything.
func (s *ownStatus) has() bool {
	return s.Parents != nil || s.Ancestors != nil || s.Listeners != nil || s.Addresses != nil || s.AttachedListenerSets != nil || s.SupportedFeatures != nil
}

func (s *statusObject) own() ownStatus {
	if s.ownStatus == nil {
		return ownStatus{}
	}
	return *s.ownStatus
}

// text is the status as JSON, to tell two apart.
func (s *statusObject) text() string {
	text, err := json.Marshal(struct {
		Conditions []json.RawMessage
		Own        ownStatus
	}{s.Conditions, s.own()})
	if err != nil {
		panic(err) // it was read as JSON
	}
	return string(text)
}

// standing is an entry of the status of a route or a policy: how that stands at a parent, or an ancestor.
type standing struct {
	ParentRef      json.RawMessage   `json:"parentRef,omitempty"`
	AncestorRef    json.RawMessage   `json:"ancestorRef,omitempty"`
	ControllerName string            `json:"controllerName"`
	Conditions     []json.RawMessage `json:"conditions"`
}

// isOurs reports whether an entry is not another controller's. The first version of the kind InferencePool
// drops who has written an entry: then it is ours if it is of a parent that we speak of.
func (s *standing) isOurs(wants []standing) bool {
	if s.ControllerName == "" {
		return slices.ContainsFunc(wants, func(w standing) bool { return w.sameRef(s) })
	}
	return s.ControllerName == kinds.GatewayController
}

// standingsIn are those of the entries of a status that can be read.
func standingsIn(raw []json.RawMessage) []standing {
	out := make([]standing, 0, len(raw))
	for _, r := range raw {
		var p standing
		if json.Unmarshal(r, &p) == nil {
			out = append(out, p)
		}
	}
	return out
}

// sameRef reports whether two entries are of the same parent or ancestor.
func (s *standing) sameRef(other *standing) bool {
	return sameJSON(s.ParentRef, other.ParentRef) && sameJSON(s.AncestorRef, other.AncestorRef)
}

// listener is an entry of the status of a Gateway or a ListenerSet.
type listener struct {
	Name           string            `json:"name"`
	SupportedKinds json.RawMessage   `json:"supportedKinds,omitempty"`
	AttachedRoutes json.RawMessage   `json:"attachedRoutes"`
	Conditions     []json.RawMessage `json:"conditions"`
}

// shaping brings a status to what it is to be.
type shaping struct {
	there, want statusObject
	generation  int64
	now         time.Time
	body        map[string]any // what is to be written
	differs     bool
}

// shaped is what of a status is to be written so that it says what is wanted, as of a generation. It
// reports whether that differs from what is there. Entries and conditions of others stay.
func shaped(there, want statusObject, generation int64, now time.Time) (body map[string]any, differs bool) {
	s := &shaping{there: there, want: want, generation: generation, now: now, body: map[string]any{}}
	has, wants := there.own(), want.own()
	if len(want.Conditions) > 0 {
		s.body["conditions"] = s.conditions(there.Conditions, want.Conditions)
	}
	if parents := s.standings(has.Parents, wants.Parents); len(has.Parents)+len(parents) > 0 {
		s.body["parents"] = parents
	}
	if ancestors := s.standings(has.Ancestors, wants.Ancestors); len(has.Ancestors)+len(ancestors) > 0 {
		s.body["ancestors"] = ancestors
	}
	if len(wants.Listeners) > 0 {
		s.body["listeners"] = s.listeners(has.Listeners, wants.Listeners)
	}
	s.value("addresses", has.Addresses, wants.Addresses)
	s.value("attachedListenerSets", has.AttachedListenerSets, wants.AttachedListenerSets)
	s.value("supportedFeatures", has.SupportedFeatures, wants.SupportedFeatures)
	return s.body, s.differs
}

// conditions merges conditions into those that are there.
func (s *shaping) conditions(there, want []json.RawMessage) []json.RawMessage {
	all, differs := merged(there, asOf(conditionsIn(want), s.generation), s.now)
	s.differs = s.differs || differs
	return all
}

func conditionsIn(raw []json.RawMessage) []registry.Condition {
	out := make([]registry.Condition, 0, len(raw))
	for _, r := range raw {
		var c condition
		if json.Unmarshal(r, &c) == nil {
			out = append(out, registry.Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
	return out
}

// standings are the entries of others as they are there, in their order, and those that are wanted in
// place of ours.
func (s *shaping) standings(there, want []json.RawMessage) []json.RawMessage {
	all := make([]json.RawMessage, 0, len(there)+len(want))
	wants := standingsIn(want)
	var ours []standing
	for _, raw := range there {
		var p standing
		if json.Unmarshal(raw, &p) != nil || !p.isOurs(wants) {
			all = append(all, raw)
			continue
		}
		ours = append(ours, p)
	}
	for _, p := range wants {
		i := slices.IndexFunc(ours, func(o standing) bool { return o.sameRef(&p) })
		var had []json.RawMessage
		if i >= 0 {
			had = ours[i].Conditions
			ours = slices.Delete(ours, i, i+1)
		} else {
			s.differs = true
		}
		p.Conditions = s.conditions(had, p.Conditions)
		all = append(all, encode(p))
	}
	s.differs = s.differs || len(ours) > 0 // parents that it has no more
	return all
}

// listeners are those that are wanted.
func (s *shaping) listeners(there, want []json.RawMessage) []json.RawMessage {
	had := map[string]listener{}
	for _, raw := range there {
		var l listener
		if json.Unmarshal(raw, &l) == nil {
			had[l.Name] = l
		}
	}
	s.differs = s.differs || len(there) != len(want)
	all := make([]json.RawMessage, 0, len(want))
	for _, raw := range want {
		var l listener
		if json.Unmarshal(raw, &l) != nil {
			continue
		}
		before := had[l.Name]
		s.differs = s.differs || !sameJSON(before.SupportedKinds, l.SupportedKinds) || !sameJSON(before.AttachedRoutes, l.AttachedRoutes)
		l.Conditions = s.conditions(before.Conditions, l.Conditions)
		all = append(all, encode(l))
	}
	return all
}

// value has a field be as it is wanted.
func (s *shaping) value(name string, there, want json.RawMessage) {
	if want == nil {
		return
	}
	s.body[name] = want
	s.differs = s.differs || !sameJSON(there, want)
}

// sameJSON reports whether two texts are the same value. Nothing is like an empty list: the cluster
// leaves those out.
func sameJSON(a, b json.RawMessage) bool {
	return bytes.Equal(normal(a), normal(b))
}

func normal(text json.RawMessage) []byte {
	var value any
	if len(text) == 0 || strings.TrimSpace(string(text)) == "[]" || json.Unmarshal(text, &value) != nil {
		return nil
	}
	return encode(value)
}

func encode(v any) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was read as JSON
	}
	return text
}
