package upstream

import (
	"strings"

	"github.com/pgmesh/pgmesh/identity/refusal"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

// judge notes what the end of a call, or an answer, says of whether this machine is a member still.
// Discovery judges every call alike, so any answer takes back what was refused before. What was
// said of a certificate that was replaced since does not count.
func (u *Upstream) judge(l *link, err error) {
	r := refusal.RevocationOf(err)
	if err != nil && r == nil {
		return // the call says nothing of that
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !l.stale {
		u.setRevoked(r)
	}
}

// setRevoked records why this machine is no member any more, nil if it is one. The caller holds
// u.mu.
func (u *Upstream) setRevoked(r *identityv1.Revocation) {
	before := u.status.Revoked
	if u.status.Revoked = r; (before == nil) == (r == nil) {
		return
	}
	u.metrics.revoked(r != nil)
	u.notify()
	if r == nil {
		u.retry()
		u.log.Info("discovery takes this machine for a member of the mesh again")
		return
	}
	about := revocation(r, u.Addresses())
	u.log.Error("this machine was revoked, and is no member of the mesh any more", "what", about.Whom, "since", about.Since, "reason", about.Reason, "hint", about.Do)
}

// Revoked says for the status of the agent why this machine is no member any more, nil if it is
// one as far as it knows.
func (u *Upstream) Revoked() *status.Revocation {
	now, _ := u.Status()
	if now.Revoked == nil {
		return nil
	}
	return revocation(now.Revoked, u.Addresses())
}

func revocation(r *identityv1.Revocation, servers []string) *status.Revocation {
	again := "mesh-agent join --again --server " + strings.Join(servers, ",")
	out := &status.Revocation{Reason: r.GetReason()}
	if at := r.GetAt(); at != nil {
		out.Since = at.AsTime()
	}
	if r.GetIdentity() == "" {
		out.Whom = "machine " + r.GetEnrolment()
		out.Do = "have it join again with a new token, which mcp-client token create makes: " + again +
			"; if it was revoked by mistake: mcp-client identity restore " + r.GetEnrolment()
		return out
	}
	name := strings.Replace(strings.TrimPrefix(r.GetIdentity(), "ns/"), "/sa/", "/", 1)
	out.Whom = "identity " + name
	out.Do = "nobody can join as " + name + " before mcp-client identity restore " + name + "; as another, it joins with a token for that: " + again
	return out
}
