package kubernetes

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/terse"
	"github.com/pgmesh/pgmesh/registry"
)

// ours are the types of conditions that the mesh writes. All others are somebody else's, and stay.
var ours = []string{
	"Accepted", "ResolvedRefs", "Programmed", "Conflicted", "HasWarnings",
	"PartiallyInvalid", "OverlappingTLSConfig", "InsecureFrontendValidationMode", "SupportedVersion", // of the Gateway API
}

// condition is one of an object.
type condition struct {
	Type               string `json:"type"`
	Status             string `json:"status"`
	Reason             string `json:"reason"`
	Message            string `json:"message"`
	ObservedGeneration int64  `json:"observedGeneration,omitempty"`
	LastTransitionTime string `json:"lastTransitionTime"`
}

// mostMessage bounds what is said of an object.
const mostMessage = 2000

// asOf are the conditions that an object is to have of ours, as of a generation.
func asOf(all []registry.Condition, generation int64) []condition {
	out := make([]condition, len(all))
	for i, c := range all {
		out[i] = condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: terse.Kept(c.Message, mostMessage), ObservedGeneration: generation}
	}
	return out
}

// merged are the conditions of an object with ours as they are to be. It reports whether that differs
// from what is there. The time of a transition stays for as long as the status does.
func merged(there []json.RawMessage, want []condition, now time.Time) (all []json.RawMessage, differs bool) {
	left := slices.Clone(want)
	all = make([]json.RawMessage, 0, len(there)+len(want))
	for _, raw := range there {
		var had condition
		if json.Unmarshal(raw, &had) != nil || !slices.Contains(ours, had.Type) {
			all = append(all, raw)
			continue
		}
		i := slices.IndexFunc(left, func(c condition) bool { return c.Type == had.Type })
		if i < 0 { // it is over, or there twice
			differs = true
			continue
		}
		c := left[i].after(&had, now)
		left = slices.Delete(left, i, i+1)
		differs = differs || c != had
		all = append(all, c.encode())
	}
	for i := range left {
		c := left[i].after(&condition{}, now)
		all, differs = append(all, c.encode()), true
	}
	return all, differs
}

// after is the condition in place of another.
func (c condition) after(had *condition, now time.Time) condition {
	c.LastTransitionTime = had.LastTransitionTime
	if c.Status != had.Status || had.LastTransitionTime == "" {
		c.LastTransitionTime = now.UTC().Format(time.RFC3339)
	}
	return c
}

func (c *condition) encode() json.RawMessage {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // texts and a number always can be written
	}
	return text
}
