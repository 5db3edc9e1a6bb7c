package registries

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
)

// Status describes a registry.
type Status struct {
	Name string
	// Read says that it was read since the server has started.
	Read bool
	// Stale is since when what is served of it may not be the newest; zero while it is.
	Stale time.Time
	// Error is why it cannot be asked.
	Error error
	// Resources is how many are served of it, or would be if the mesh had none of their names.
	Resources int
	// Changes is how many resources have changed since the server has started.
	Changes int64
	// Bad are the entries that cannot be used, sorted by name.
	Bad []Bad
}

// Bad is an entry of a registry that cannot be used. Its last good state stays.
type Bad struct {
	// Key is the resource that it is or was; zero if it never became one.
	Key           kinds.Key
	Entry, Reason string
}

// about says in words what is wrong.
func (s *Status) about() string {
	text := ""
	switch {
	case !s.Read && s.Resources == 0:
		text = fmt.Sprintf("serving without the registry %s, which was never read", s.Name)
	case !s.Stale.IsZero():
		text = fmt.Sprintf("the registry %s is as it was at %s", s.Name, s.Stale.UTC().Format(time.RFC3339))
	}
	if text != "" && s.Error != nil {
		text += ": " + s.Error.Error()
	}
	if len(s.Bad) == 0 {
		return text
	}
	if text != "" {
		text += "; "
	}
	return text + fmt.Sprintf("%d bad entries in the registry %s, such as %s: %s", len(s.Bad), s.Name, s.Bad[0].Entry, s.Bad[0].Reason)
}

func (o *origin) status() Status {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := Status{Name: o.registry.Name(), Read: o.read, Stale: o.stale, Error: o.away, Resources: len(o.has), Changes: o.changes}
	for entry, reason := range o.told {
		s.Bad = append(s.Bad, Bad{Key: o.keyOfEntry(entry), Entry: entry, Reason: reason})
	}
	for _, wrong := range []map[kinds.Key]string{o.wrong, o.unfit} {
		for key, reason := range wrong {
			s.Bad = append(s.Bad, Bad{Key: key, Entry: key.String(), Reason: reason})
		}
	}
	slices.SortFunc(s.Bad, func(a, b Bad) int { return strings.Compare(a.Entry, b.Entry) })
	return s
}

// keyOfEntry is the resource that was made of an entry before that was bad, if its entry names it by
// its kind, as configuration of Kubernetes is named: virtualservices.networking.istio.io/shop/web.
func (o *origin) keyOfEntry(entry string) kinds.Key {
	plural, name, found := strings.Cut(entry, "/")
	if !found || !strings.Contains(plural, ".") {
		return kinds.Key{}
	}
	kind, err := kinds.ByName(plural)
	if err != nil {
		return kinds.Key{}
	}
	key := keyOf(kind, name)
	if o.has[key].entry != entry {
		return kinds.Key{}
	}
	return key
}
