package rollout

import (
	"math"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// What may be in a message. With so many proxies it makes a transaction of some hundred
// milliseconds.
const (
	maxProxies   = 1000
	maxRollouts  = 200
	maxAudiences = 5000
	maxVersions  = 5000
	maxStatuses  = 1000
	maxProblems  = 1000
	maxTimes     = 100_000
	maxRefusals  = 20 // of a proxy
	maxSources   = 50 // of a refusal
	maxTook      = 32 // of a part of a rollout
	maxParts     = 10_000
	maxCircles   = 100_000 // of an audience
)

var states = map[rolloutv1.Proxy_State]string{
	rolloutv1.Proxy_STATE_IN_STEP: rollout.Synced, rolloutv1.Proxy_STATE_SENDING: rollout.Sending,
	rolloutv1.Proxy_STATE_REFUSED: rollout.Refused, rolloutv1.Proxy_STATE_SILENT: rollout.Silent,
}

// read checks what the store cannot, and converts a message. Texts are bounded by the store: much
// of them is the proxies' own word, so it cuts them and refuses none.
func (r *report) read(m *rolloutv1.ReportRequest) (to rollout.Message, err error) {
	switch {
	case r.term == nil && m.GetDiscovery() == "":
		return to, status.Error(codes.InvalidArgument, "discovery: the first message has to say what the discovery is called")
	case m.GetNumber() > math.MaxInt64:
		return to, status.Errorf(codes.InvalidArgument, "number: messages are counted from 1, and this is %d", m.GetNumber())
	}
	if err := bounds(m); err != nil {
		return to, err
	}
	return rollout.Message{
		Number: int64(m.GetNumber()), Revision: m.GetRevision(), Gone: m.GetGone(), Proxies: proxiesOf(m.GetProxies()), Rollouts: rolloutsOf(m.GetRollouts()),
		Audiences: audiencesOf(m.GetAudiences()), Push: m.GetPush(), Versions: versionsOf(m.GetVersions()), Statuses: statusesOf(m.GetStatuses()), Problems: problemsOf(m.GetProblems()), Times: timesOf(m.GetTimes()),
	}, nil
}

// bounds refuses a message in which there is too much of something.
func bounds(m *rolloutv1.ReportRequest) error {
	var b bounded
	b.most("proxies", len(m.GetProxies()), maxProxies)
	b.most("rollouts", len(m.GetRollouts()), maxRollouts)
	b.most("audiences", len(m.GetAudiences()), maxAudiences)
	b.most("versions", len(m.GetVersions()), maxVersions)
	b.most("statuses", len(m.GetStatuses()), maxStatuses)
	b.most("problems", len(m.GetProblems().GetProblems()), maxProblems)
	b.most("times", len(m.GetTimes().GetStreams()), maxTimes)
	for _, p := range m.GetProxies() {
		b.most("proxies.refusals", len(p.GetRefusals()), maxRefusals)
		for _, f := range p.GetRefusals() {
			b.most("proxies.refusals.sources", len(f.GetSources()), maxSources)
		}
	}
	for _, r := range m.GetRollouts() {
		b.most("rollouts.parts", len(r.GetParts()), maxParts)
		for _, p := range r.GetParts() {
			b.most("rollouts.parts.took", len(p.GetTook()), maxTook)
		}
	}
	for _, a := range m.GetAudiences() {
		b.most("audiences.circles", len(a.GetCircles()), maxCircles)
	}
	return b.err
}

// bounded has the first thing that is wrong.
type bounded struct{ err error }

func (b *bounded) most(field string, there, most int) {
	if there > most && b.err == nil {
		b.err = status.Errorf(codes.InvalidArgument, "%s: there are %d, of at most %d: send several messages", field, there, most)
	}
}

func proxiesOf(all []*rolloutv1.Proxy) []rollout.Proxy {
	to := make([]rollout.Proxy, len(all))
	for i, p := range all {
		to[i] = rollout.Proxy{
			Stream: p.GetStream(), Description: descriptionOf(p.GetDescription()), State: states[p.GetState()],
			Sent: p.GetSent(), Runs: p.GetRuns(), Refused: p.GetRefused(), Refusals: refusalsOf(p.GetRefusals()), Circle: p.GetCircle(), Push: p.GetPush(),
		}
	}
	return to
}

func descriptionOf(d *rolloutv1.Description) *rollout.Description {
	if d == nil {
		return nil
	}
	to := &rollout.Description{
		Node: d.GetNode(), Proxy: d.GetProxy(), Namespace: d.GetNamespace(), ServiceAccount: d.GetServiceAccount(), Role: d.GetRole(), Labels: d.GetLabels(),
		Locality: d.GetLocality(), Network: d.GetNetwork(), Addresses: d.GetAddresses(),
		Envoy: d.GetEnvoy(), Agent: d.GetAgent(), Protocol: d.GetProtocol(), Connected: d.GetConnected().AsTime(),
	}
	if ends := d.GetCertificateEnds(); ends != nil {
		at := ends.AsTime()
		to.CertificateEnds = &at
	}
	return to
}

func refusalsOf(all []*rolloutv1.Refusal) (to []rollout.Refusal) {
	for _, f := range all {
		refusal := rollout.Refusal{TypeURL: f.GetTypeUrl(), Resource: f.GetResource(), Reason: f.GetReason(), Since: f.GetSince().AsTime()}
		for _, source := range f.GetSources() {
			refusal.Sources = append(refusal.Sources, sourceOf(source))
		}
		to = append(to, refusal)
	}
	return to
}

func sourceOf(s *rolloutv1.Source) rollout.Source {
	return rollout.Source{
		Resource: rollout.Resource{Group: s.GetApiGroup(), Kind: s.GetKind(), Namespace: s.GetNamespace(), Name: s.GetName()}, Path: s.GetPath(),
	}
}

func resourceOf(r *rolloutv1.Resource) rollout.Resource {
	return rollout.Resource{Group: r.GetApiGroup(), Kind: r.GetKind(), Namespace: r.GetNamespace(), Name: r.GetName()}
}

func rolloutsOf(all []*rolloutv1.Rollout) (to []rollout.Rollout) {
	for _, r := range all {
		push := rollout.Rollout{Revision: r.GetRevision(), After: r.GetAfter(), Began: r.GetBegan().AsTime()}
		for _, p := range r.GetParts() {
			push.Parts = append(push.Parts, rollout.Part{
				Namespace: p.GetNamespace(), Concerned: p.GetConcerned(), Ran: p.GetRan(), Refused: p.GetRefused(), Away: p.GetAway(), Took: p.GetTook(),
			})
		}
		to = append(to, push)
	}
	return to
}

func audiencesOf(all []*rolloutv1.Audience) (to []rollout.Audience) {
	for _, a := range all {
		to = append(to, rollout.Audience{Resource: resourceOf(a.GetResource()), Everyone: a.GetEveryone(), Circles: a.GetCircles()})
	}
	return to
}

func versionsOf(all []*rolloutv1.Version) (to []rollout.Version) {
	for _, v := range all {
		to = append(to, rollout.Version{Resource: resourceOf(v.GetResource()), Version: v.GetVersion(), Push: v.GetPush()})
	}
	return to
}

func statusesOf(all []*rolloutv1.Status) (to []rollout.Decided) {
	for _, s := range all {
		to = append(to, rollout.Decided{Resource: resourceOf(s.GetResource()), Status: s.GetStatus()})
	}
	return to
}

func problemsOf(all *rolloutv1.Problems) *[]rollout.Problem {
	if all == nil {
		return nil
	}
	to := []rollout.Problem{}
	for _, p := range all.GetProblems() {
		to = append(to, rollout.Problem{Resource: resourceOf(p.GetResource()), Path: p.GetPath(), Code: p.GetCode(), Message: p.GetMessage()})
	}
	return &to
}

func timesOf(t *rolloutv1.Times) *rollout.Times {
	if t == nil {
		return nil
	}
	return &rollout.Times{Streams: t.GetStreams(), Took: t.GetTook()}
}
