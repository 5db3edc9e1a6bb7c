package rollout

import (
	"maps"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pgmesh/pgmesh/store"
)

// What a proxy says of itself is bounded, for anybody who may connect to a discovery says something.
const (
	mostText      = 1024  // bytes of a text
	mostWords     = 4096  // bytes of a sentence, such as Envoy's words
	mostLabels    = 16384 // bytes of all labels
	mostAddresses = 16
)

// row is a proxy as the database takes it, with the columns of mesh_internal.reported_proxies. Only
// a proxy that is described has a node.
type row struct {
	Stream  uint64 `json:"stream"`
	State   string `json:"state"`
	Sent    *int64 `json:"sent"`
	Runs    *int64 `json:"runs"`
	Push    *int64 `json:"push"`
	Refused uint32 `json:"refused"`
	Circle  uint32 `json:"circle"`

	Refusals []refusalRow `json:"refusals,omitempty"`
	*Description
}

func rowOf(p Proxy) row {
	r := row{Stream: p.Stream, State: p.State, Refused: min(p.Refused, math.MaxInt32), Circle: p.Circle, Refusals: refusalRows(p.Refusals)}
	if p.State != Synced {
		push := int64(p.Push)
		r.Sent, r.Runs, r.Push = &p.Sent, &p.Runs, &push
	}
	if d := p.Description; d != nil {
		r.Description = &Description{
			Node: text(d.Node), Proxy: text(d.Proxy), Namespace: text(d.Namespace), ServiceAccount: text(d.ServiceAccount), Role: text(d.Role),
			Labels: labels(d.Labels), Locality: text(d.Locality), Network: text(d.Network), Addresses: addresses(d.Addresses),
			Envoy: text(d.Envoy), Agent: text(d.Agent), Protocol: text(d.Protocol), Connected: past(d.Connected), CertificateEnds: future(d.CertificateEnds),
		}
	}
	return r
}

// text returns a text that Postgres accepts, cut at a bound.
func text(s string) string { return bounded(s, mostText) }

// words is text for a sentence.
func words(s string) string { return bounded(s, mostWords) }

func bounded(s string, most int) string {
	return cut(store.Storable(s[:min(len(s), most)]), most) // what is cut from a character is replaced
}

// cut cuts a text between two characters.
func cut(s string, most int) string {
	end := min(len(s), most)
	for end < len(s) && end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// labels returns as many labels as there is room for. One that is too long is left out, for a part
// of it would be another.
func labels(all map[string]string) map[string]string {
	some, size := make(map[string]string, len(all)), 0
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value := all[key]
		if len(key) > mostText || len(value) > mostText || size+len(key)+len(value) > mostLabels {
			continue
		}
		size += len(key) + len(value)
		some[text(key)] = text(value)
	}
	return some
}

func addresses(all []string) []string {
	some := []string{}
	for _, address := range all[:min(len(all), mostAddresses)] {
		some = append(some, text(address))
	}
	return some
}

// past returns a time that is not in the future, so that a clock that is wrong does not make a
// stream the newest for good.
func past(at time.Time) time.Time {
	now := time.Now()
	if at.After(now) || at.Before(now.AddDate(-10, 0, 0)) {
		return now
	}
	return at
}

// future returns a time that Postgres and JSON know; nil for none.
func future(at *time.Time) *time.Time {
	if at == nil || at.Year() < 1 || at.Year() > 9999 {
		return nil
	}
	return at
}
