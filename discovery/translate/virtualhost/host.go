package virtualhost

import (
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/naming"
)

// Host is a virtual host with the name that it is sent by. It is not made yet.
type Host struct {
	draft          Draft
	countsAttempts bool
}

// In is the virtual host of a route configuration, with the name that it is sent by.
func (h Draft) In(configuration string, countsAttempts bool) Host {
	h.Name = naming.Host(configuration, h.Name)
	return Host{h, countsAttempts}
}

// Name is the name by which it is sent.
func (h Host) Name() string { return h.draft.Name }

// Same reports whether two become the same message, for proxies of the same traits in the same
// surroundings. It may report false of such.
func (h Host) Same(other Host) bool {
	return h.draft.Same(other.draft) && h.countsAttempts == other.countsAttempts
}

// Make makes the host.
func (h Host) Make() *routev3.VirtualHost { return h.draft.Message(h.countsAttempts) }
