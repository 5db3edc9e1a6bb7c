package output

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
)

// Statuses say what became of resources. A nil one is not shown at all.
type Statuses map[kinds.Key]*Status

// Status says what became of a resource, in the form in which it is printed.
type Status struct {
	ObservedRevision int64       `json:"observedRevision"`
	Conditions       []Condition `json:"conditions"`
	Proxies          Counts      `json:"proxies"`
	// Version is the resource's resourceVersion, "" if it is not known.
	Version string `json:"-"`
	// Own is the status of a resource of the Gateway API in that API's own shape; nil if it is not known.
	// Its conditions stand in place of ours.
	Own map[string]any `json:"-"`
}

// MarshalJSON writes the status as one object.
func (s *Status) MarshalJSON() ([]byte, error) {
	all := map[string]any{"observedRevision": s.ObservedRevision, "conditions": s.Conditions, "proxies": s.Proxies}
	maps.Copy(all, s.Own)
	return encodeJSON(all)
}

// Condition is one of Kubernetes' sort.
type Condition struct {
	Type               string     `json:"type"`
	Status             string     `json:"status"`
	Reason             string     `json:"reason"`
	Message            string     `json:"message"`
	LastTransitionTime *time.Time `json:"lastTransitionTime,omitempty"`
	ObservedGeneration int64      `json:"observedGeneration"`
}

// Counts are numbers of connected proxies: those that the resource concerns, and of these those
// that run it as it is now, and that refuse what was made from it.
type Counts struct {
	Concerned uint32 `json:"concerned"`
	Running   uint32 `json:"running"`
	Refusing  uint32 `json:"refusing"`
}

// Programmed is the condition that says whether proxies run a resource.
const Programmed = "Programmed"

// Word says in a word how the resource stands: the reason of the first condition that is not met,
// or else that of Programmed.
func (s *Status) Word() (word string, style terminal.Style) {
	for _, c := range s.Conditions {
		switch {
		case c.Type == Programmed:
			word, style = c.Reason, StyleOf(c.Status)
		case c.Status == "False", c.Type == "Conflicted" && c.Status == "True":
			return c.Reason, terminal.Red
		}
	}
	if s.Proxies.Refusing > 0 {
		style = terminal.Red
	}
	return word, style
}

// StyleOf is how the status of a condition is painted.
func StyleOf(status string) terminal.Style {
	return map[string]terminal.Style{"True": terminal.Green, "False": terminal.Yellow}[status]
}

// JSON writes a resource with its status and version.
func (all Statuses) JSON(r *kinds.Resource) ([]byte, error) { return all.writer().JSON(r) }

// writer writes resources with their statuses and versions.
func (all Statuses) writer() kinds.Writer {
	return kinds.Writer{Status: func(r *kinds.Resource) json.RawMessage {
		status := all[r.Key()]
		if status == nil {
			return nil
		}
		text, err := encodeJSON(status)
		if err != nil {
			panic(err) // only strings, numbers, times, and what was read as JSON
		}
		return text
	}, Version: func(r *kinds.Resource) string {
		if status := all[r.Key()]; status != nil {
			return status.Version
		}
		return ""
	}}
}

func (all Statuses) columns() []string {
	if all == nil {
		return nil
	}
	return []string{"STATUS", "PROXIES"}
}

func (p *Printer) statusCells(all Statuses, k kinds.Key) []string {
	status := all[k]
	switch {
	case all == nil:
		return nil
	case status == nil:
		return []string{"-", "-"}
	}
	word, style := status.Word()
	return []string{p.Paint(style, word), fmt.Sprintf("%d/%d", status.Proxies.Running, status.Proxies.Concerned)}
}
