package push

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"weak"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// message is what all messages of Envoy's can do.
type message interface {
	proto.Message
	Validate() error
}

// made holds the resources that messages are encoded to.
type made struct {
	resources []*served.Resource
	// refused are the messages that Envoy would refuse. Sent, such a message would get its whole
	// response refused, so it is left out; a proxy that has an older state of it keeps that.
	refused []refusal
}

type refusal struct {
	name string
	err  error
}

func (m *made) add(other made) {
	m.resources, m.refused = append(m.resources, other.resources...), append(m.refused, other.refused...)
}

// names yields the names of all messages, those that Envoy would refuse too.
func (m *made) names() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, r := range m.resources {
			if !yield(r.Name) {
				return
			}
		}
		for _, r := range m.refused {
			if !yield(r.name) {
				return
			}
		}
	}
}

// over returns the set with exactly what was made. What did not change keeps its resource, and a
// refused message its older one.
func (m *made) over(set *served.Set) *served.Set {
	keep := make(map[string]bool, len(m.resources))
	for name := range m.names() {
		keep[name] = true
	}
	var gone []string
	for r := range set.All() {
		if !keep[r.Name] {
			gone = append(gone, r.Name)
		}
	}
	return set.With(m.resources, gone)
}

// encode turns messages into resources, and leaves out what Envoy would refuse.
func encode[M message](once *onlyOnce, messages []M, name func(M) string, note func(M, *served.Resource)) made {
	out := made{resources: make([]*served.Resource, 0, len(messages))}
	for _, m := range messages {
		r, known := once.encode(m, name(m))
		if !known {
			if err := m.Validate(); err != nil {
				out.refused = append(out.refused, refusal{r.Name, fmt.Errorf("%s: %w", r.Name, err)})
				continue
			}
			if note != nil {
				note(m, r)
			}
			once.keep(r)
		}
		out.resources = append(out.resources, r)
	}
	return out
}

// onlyOnce keeps equal resources in memory once, whichever view or class made them.
type onlyOnce struct {
	known map[identity]weak.Pointer[served.Resource]
	sweep int // how many there may be before unused ones are dropped
}

type identity struct{ typeURL, name, version string }

func identityOf(r *served.Resource) identity { return identity{r.Body.GetTypeUrl(), r.Name, r.Version} }

// encode returns the resource of a message, and whether an equal one is known already. The version
// is the hash of the bytes.
func (o *onlyOnce) encode(m proto.Message, name string) (r *served.Resource, known bool) {
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("encode a translated message: " + err.Error()) // only invalid UTF-8 fails, and no decoder lets that in
	}
	sum := sha256.Sum256(value)
	version := hex.EncodeToString(sum[:12])
	if r := o.known[identity{typeOf(m), name, version}].Value(); r != nil {
		return r, true
	}
	return served.NewResource(name, version, &anypb.Any{TypeUrl: typeOf(m), Value: value}), false
}

// keep remembers a new resource. Now and then it drops those that nobody holds any more.
func (o *onlyOnce) keep(r *served.Resource) {
	if o.known == nil {
		o.known = map[identity]weak.Pointer[served.Resource]{}
	}
	if len(o.known) >= max(o.sweep, leastSwept) {
		for id, p := range o.known {
			if p.Value() == nil {
				delete(o.known, id)
			}
		}
		o.sweep = 2 * len(o.known)
	}
	o.known[identityOf(r)] = weak.Make(r)
}

// leastSwept is the size below which a sweep is not worth its while.
const leastSwept = 100
