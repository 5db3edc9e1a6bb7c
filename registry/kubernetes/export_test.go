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

// Protocols are those that ports can be said to speak.
func Protocols() map[string]string { return protocols }

// Groups are those of the kinds that are read.
func Groups() []string {
	found := map[string]bool{}
	for _, k := range configKinds() {
		found[k.Group] = true
	}
	return slices.Collect(maps.Keys(found))
}
