package registries

import (
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
)

// Writing are the names of the registries to which statuses are to be written.
func (all *Registries) Writing() (names []string) {
	for _, o := range all.origins {
		if w := o.writer(); w != nil {
			names = append(names, w.Name())
		}
	}
	return names
}

// Writer writes statuses to the registry; nil if nobody is to.
func (t *Trail) Writer() registry.StatusWriter {
	return t.of.writer()
}

func (o *origin) writer() registry.StatusWriter {
	if w, is := o.registry.(registry.StatusWriter); is && w.WritesStatuses() {
		return w
	}
	return nil
}

// Version is a resource in a version, as it is served.
type Version struct {
	Key     kinds.Key
	Version string
}

// Statuses are what is to be written to the registry of what is known. What is known of a version
// that the registry has no more is left out, and what cannot be used is said of all that it was
// checked for.
func (t *Trail) Statuses(known map[Version]registry.Status) (all []registry.Status) {
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	for of, status := range known {
		if found := t.of.has[of.Key]; isVersion(found.served, of.Version) && found.from != nil && t.of.refused[of.Key] == nil {
			status.Resource = found.from
			all = append(all, status)
		}
	}
	for key, r := range t.of.refused {
		all = append(all, registry.Status{Resource: r, Conditions: registry.Unusable(t.of.wrong[key])})
	}
	return all
}

func isVersion(r *served.Resource, version string) bool { return r != nil && r.Version == version }
