package rollout

import (
	"math"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// maxProxies is the most proxies in a message: they make a transaction of some hundred
// milliseconds.
const maxProxies = 1000

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
	case len(m.GetProxies()) > maxProxies:
		return to, status.Errorf(codes.InvalidArgument, "proxies: there are %d, of at most %d: send several messages", len(m.GetProxies()), maxProxies)
	}
	to = rollout.Message{Number: int64(m.GetNumber()), Revision: m.GetRevision(), Gone: m.GetGone(), Proxies: make([]rollout.Proxy, len(m.GetProxies()))}
	for i, p := range m.GetProxies() {
		to.Proxies[i] = rollout.Proxy{
			Stream: p.GetStream(), Description: descriptionOf(p.GetDescription()), State: states[p.GetState()],
			Sent: p.GetSent(), Runs: p.GetRuns(), Refused: p.GetRefused(),
		}
	}
	return to, nil
}

func descriptionOf(d *rolloutv1.Description) *rollout.Description {
	if d == nil {
		return nil
	}
	return &rollout.Description{
		Node: d.GetNode(), Proxy: d.GetProxy(), Namespace: d.GetNamespace(), ServiceAccount: d.GetServiceAccount(), Role: d.GetRole(), Labels: d.GetLabels(),
		Locality: d.GetLocality(), Network: d.GetNetwork(), Addresses: d.GetAddresses(),
		Envoy: d.GetEnvoy(), Agent: d.GetAgent(), Protocol: d.GetProtocol(), Connected: d.GetConnected().AsTime(),
	}
}
