package push

import (
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
)

// Admission judges whether the client of a call may be who its node says, and returns the node as it counts. It is a [RefusalError] if the client
// may not.
type Admission func(ctx context.Context, node *corev3.Node) (*corev3.Node, error)

// RefusalError is why a proxy is not let in.
type RefusalError struct {
	// Reason is one of a few words, for metrics.
	Reason string
	Code   codes.Code
	Text   string
}

func (e *RefusalError) Error() string { return e.Text }

// GRPCStatus is what the client is told.
func (e *RefusalError) GRPCStatus() *status.Status { return status.New(e.Code, e.Text) }

// malformed is the reason for nodes that cannot be read.
const malformed = "node"

// AdmitBy has an admission judge each proxy that comes. It is for before the first.
func (e *Engine) AdmitBy(a Admission) { e.admit = a }

// Refuse counts and logs a proxy that is not let in, and returns the refusal for it.
func (e *Engine) Refuse(ctx context.Context, node string, r *RefusalError) error {
	e.refusals.count.WithLabelValues(r.Reason).Inc()
	e.refusals.tell.Do(func() {
		about := []any{"reason", r.Reason, "error", r.Text}
		if node != "" { // it has said who it is
			about = append(about, "node", node)
		}
		if p, ok := peer.FromContext(ctx); ok {
			about = append(about, "address", p.Addr.String())
		}
		e.refusals.log.Warn("refused a proxy", about...)
	})
	return r
}

// introduced reads who a proxy says that it is, if it may be that.
func (e *Engine) introduced(ctx context.Context, node *corev3.Node) (*mesh.Proxy, *corev3.Node, error) {
	if e.admit != nil {
		admitted, err := e.admit(ctx, node)
		if refusal, ok := errors.AsType[*RefusalError](err); ok {
			return nil, nil, e.Refuse(ctx, node.GetId(), refusal)
		} else if err != nil {
			return nil, nil, err
		}
		node = admitted
	}
	proxy, err := mesh.ParseProxy(node)
	if err != nil {
		return nil, nil, e.Refuse(ctx, node.GetId(), &RefusalError{malformed, codes.InvalidArgument, err.Error()})
	}
	e.refusals.warn(proxy, node.GetId())
	return proxy, node, nil
}

// warn tells what is left out of what a proxy says of itself. It is served all the same.
func (r *refusals) warn(p *mesh.Proxy, node string) {
	if len(p.Warnings) > 0 {
		r.tellWarnings.Do(func() { r.log.Warn("left out metadata of a proxy", "node", node, "warnings", p.Warnings) })
	}
}

// refusals tells of proxies that are not let in, which try again and again.
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
