package kubernetes

import "time"

// LookEvery has a registry look sooner which kinds there are, than it does for people.
func LookEvery(r *Registry, interval time.Duration) { r.settings.look = interval }
