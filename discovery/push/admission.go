package push

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/internal/kit/version"
)

// Admission judges whether the client of a call may be the proxy that its node names. It returns
// the node to believe, or a [RefusalError].
type Admission func(ctx context.Context, node *corev3.Node) (*corev3.Node, error)

// Anyone is the Admission of an engine that asks for no certificates: proxies are who their nodes
// say.
func Anyone(_ context.Context, node *corev3.Node) (*corev3.Node, error) { return node, nil }

// RefusalError says why a proxy is refused.
type RefusalError struct {
	// Reason is a label of metrics: one of a few words.
	Reason string
	Code   codes.Code
	Text   string
	// Detailed is the same refusal with what programs read of it; nil if there is nothing more.
	Detailed error
}

func (e *RefusalError) Error() string { return e.Text }

// GRPCStatus makes gRPC answer with the refusal's code, text and details.
func (e *RefusalError) GRPCStatus() *status.Status {
	if e.Detailed != nil {
		return status.Convert(e.Detailed)
	}
	return status.New(e.Code, e.Text)
}

// malformed is the Reason for a node that cannot be read.
const malformed = "node"

// AdmitBy sets who judges proxies that connect, instead of Anyone. Call it before the first one
// does.
func (e *Engine) AdmitBy(a Admission) { e.admit = a }

// Refuse counts and logs that a proxy is refused, and returns r as the error for its stream.
func (e *Engine) Refuse(ctx context.Context, node string, r *RefusalError) error {
	e.refusals.count.WithLabelValues(r.Reason).Inc()
	e.refusals.tell.Do(func() {
		about := []any{"reason", r.Reason, "error", r.Text}
		if node != "" { // it has said who it is
			about = append(about, "proxy", node)
		}
		if p, ok := peer.FromContext(ctx); ok {
			about = append(about, "address", p.Addr.String())
		}
		e.refusals.log.Warn("refused a proxy", about...)
	})
	return r
}

// introduced reads the proxy that a node describes, after the admission has checked that node.
func (e *Engine) introduced(ctx context.Context, node *corev3.Node) (*mesh.Proxy, *corev3.Node, error) {
	admitted, err := e.admit(ctx, node)
	if refusal, ok := errors.AsType[*RefusalError](err); ok {
		return nil, nil, e.Refuse(ctx, node.GetId(), refusal)
	} else if err != nil {
		return nil, nil, err
	}
	node = admitted
	proxy, err := mesh.ParseProxy(node)
	if err != nil {
		return nil, nil, e.Refuse(ctx, node.GetId(), &RefusalError{Reason: malformed, Code: codes.InvalidArgument, Text: err.Error()})
	}
	proxy.Agent = cmp.Or(version.OfPeer(ctx, "mesh-agent"), proxy.Agent)
	e.refusals.warn(proxy, node.GetId())
	return proxy, node, nil
}

// warn logs what is left out of a proxy's metadata. The proxy is served without it.
func (r *refusals) warn(p *mesh.Proxy, node string) {
	if len(p.Warnings) > 0 {
		r.tellWarnings.Do(func() { r.log.Warn("left out metadata of a proxy", "proxy", node, "warnings", p.Warnings) })
	}
}

// refusals logs and counts refused proxies. They try again and again, so the log has a rate limit.
type refusals struct {
	count              *prometheus.CounterVec
	tell, tellWarnings rate.Sometimes
	log                *slog.Logger
}

func newRefusals(log *slog.Logger, metrics prometheus.Registerer) *refusals {
	r := &refusals{
		count: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pgmesh_discovery_proxies_refused_total",
			Help: "Streams of proxies that were refused or ended, by why: what is wrong with the certificate, or with who the node says that it is.",
		}, []string{"reason"}),
		tell: rate.Sometimes{First: 20, Interval: time.Second}, tellWarnings: rate.Sometimes{First: 20, Interval: time.Second}, log: log,
	}
	metrics.MustRegister(r.count)
	return r
}
