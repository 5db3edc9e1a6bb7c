package kubernetes

import (
	"maps"
	"slices"
	"time"
)

// LookEvery has a registry look sooner which kinds there are, than it does for people.
func LookEvery(r *Registry, interval time.Duration) { r.settings.look = interval }

// Parameters are those of URLs.
func Parameters() []string { return slices.Collect(maps.Keys(known)) }

// Groups are those of the kinds that are read.
func Groups() []string {
	found := map[string]bool{}
	for _, k := range configKinds() {
		found[k.Group] = true
	}
	return slices.Collect(maps.Keys(found))
}
