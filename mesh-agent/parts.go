package main

import (
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/status"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
)

// status reports the machine's identity; a nil machine has none.
func (m *machine) status() status.Identity {
	switch {
	case m == nil:
		return status.Identity{Source: "none"}
	case m.member == nil:
		return status.Identity{ID: m.Workload.String(), Source: "files"}
	}
	now := m.member.Current()
	i := status.Identity{ID: now.ID.String(), Source: "mesh", Until: now.NotAfter()}
	life := i.Until.Sub(now.Certificate.Leaf.NotBefore)
	switch left := time.Until(i.Until); {
	case left < 0:
		i.Trouble = "the certificate has ended: join again with a new token (mesh-agent join --again), or see below why discovery does not renew it"
	case left < life/lateRenewal:
		i.Trouble = fmt.Sprintf("the certificate ends in %s, and should have been renewed long ago: see why with mesh-agent logs", left.Round(time.Second))
	}
	return i
}

// lateRenewal is the fraction (1/5) of a certificate's life that is left when its renewal is overdue: it
// normally is renewed at about half.
const lateRenewal = 5

// discoveryStatus returns the function that reports the connection to discovery.
func discoveryStatus(u *upstream.Upstream) func() status.Discovery {
	return func() status.Discovery {
		now, _ := u.Status()
		d := status.Discovery{Addresses: u.Addresses(), Since: now.Since, LastFail: now.ErrorAt}
		if now.Error != nil {
			d.LastError = now.Error.Error()
		}
		switch {
		case now.Connected:
			d.Replica, d.Name = now.Address, now.Discovery
		case d.LastError != "":
			d.Trouble = "none can be reached, and Envoy goes on with what it has: " + d.LastError
		default:
			d.Trouble = "not connected yet"
		}
		return d
	}
}
