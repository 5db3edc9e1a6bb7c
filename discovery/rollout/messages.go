package rollout

import rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"

// parts are the lists of a report, which may be longer than a message.
type parts struct {
	proxies   []*rolloutv1.Proxy
	rollouts  []*rolloutv1.Rollout
	audiences []*rolloutv1.Audience
	versions  []*rolloutv1.Version
	statuses  []*rolloutv1.Status
}

// fit reports whether one message has room for what is left.
func (p *parts) fit() bool {
	return len(p.proxies) <= mostProxies && len(p.rollouts) <= mostRollouts && len(p.audiences) <= mostAudiences && len(p.versions) <= mostVersions &&
		len(p.statuses) <= mostStatuses
}

// moveTo moves as much into a message as it has room for. A version is not told before the statuses
// that are of it.
func (p *parts) moveTo(m *rolloutv1.ReportRequest) {
	m.Audiences, p.audiences = cut(p.audiences, mostAudiences)
	if m.Statuses, p.statuses = cut(p.statuses, mostStatuses); len(p.statuses) == 0 {
		m.Versions, p.versions = cut(p.versions, mostVersions)
	}
	m.Proxies, p.proxies = cut(p.proxies, mostProxies)
	m.Rollouts, p.rollouts = cut(p.rollouts, mostRollouts)
}

// messages divides what differs. The last message alone moves those in step: before it, all that
// are not in step have to be known.
func (l *ledger) messages(last *rolloutv1.ReportRequest, p parts) []*rolloutv1.ReportRequest {
	var all []*rolloutv1.ReportRequest
	for !p.fit() {
		m := &rolloutv1.ReportRequest{Revision: l.step, Push: l.stepPush}
		p.moveTo(m)
		all = append(all, m)
	}
	p.moveTo(last)
	if len(all) == 0 && !l.says(last) {
		return nil
	}
	l.step, l.stepPush = last.GetRevision(), last.GetPush()
	return append(all, last)
}

// says reports whether a message says anything new. A newer push alone is nothing new, unless it
// brings something of a registry.
func (l *ledger) says(m *rolloutv1.ReportRequest) bool {
	return m.GetRevision() != l.step || l.stepPush < l.brought && m.GetPush() > l.stepPush || m.GetTimes() != nil || m.GetProblems() != nil ||
		len(m.GetProxies())+len(m.GetRollouts())+len(m.GetAudiences())+len(m.GetVersions())+len(m.GetStatuses())+len(m.GetGone()) > 0
}

// cut cuts off the first n of a list, or all.
func cut[T any](list []T, n int) (first, rest []T) {
	n = min(n, len(list))
	return list[:n], list[n:]
}
