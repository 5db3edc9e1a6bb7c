package status

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pgmesh/pgmesh/internal/kit/localhost"
)

// ServePort serves load balancers, Prometheus and scripts until the context ends. Only this machine
// may give orders.
func (s *Server) ServePort(ctx context.Context, port net.Listener) error {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}))
	mux.Handle("GET /stats/prometheus", s.StatsPage)
	mux.HandleFunc("GET /healthz/live", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "live") })
	mux.HandleFunc("GET /healthz/ready", func(w http.ResponseWriter, r *http.Request) {
		if err := s.ready(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	s.handleOrders(mux)
	return serve(ctx, port, localhost.Handler(localOrdersOnly(mux), "/healthz/"))
}

// localOrdersOnly allows other machines only GET and HEAD, and rejects cross-origin requests from a
// browser.
func localOrdersOnly(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asks := r.Method == http.MethodGet || r.Method == http.MethodHead
		if from, err := netip.ParseAddrPort(r.RemoteAddr); !asks && (err != nil || !from.Addr().Unmap().IsLoopback()) {
			http.Error(w, "orders are taken from this machine alone: ask 127.0.0.1, or use mesh-agent on it", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
