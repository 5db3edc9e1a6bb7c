package member

import (
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// Status describes the identity for the status of the agent.
func (m *Member) Status() status.Identity {
	switch m.Source {
	case Insecure:
		return status.Identity{Source: string(m.Source)}
	case FromFiles:
		return status.Identity{ID: m.Workload.String(), Source: string(m.Source)}
	}
	now := m.membership.Current()
	i := status.Identity{ID: now.ID.String(), Source: string(m.Source), Until: now.NotAfter()}
	life := i.Until.Sub(now.Certificate.Leaf.NotBefore)
	switch left := time.Until(i.Until); {
	case left < 0:
		i.Trouble = "the certificate has ended: join again with a new token (mesh-agent join --again), or see below why discovery does not renew it"
	case left < life/lateRenewal:
		i.Trouble = fmt.Sprintf("the certificate ends in %s, and should have been renewed long ago: see why with mesh-agent logs", left.Round(time.Second))
	}
	return i
}

// lateRenewal is the fraction (1/5) of a certificate's life that is left when its renewal is
// overdue: it normally is renewed at about half.
const lateRenewal = 5
