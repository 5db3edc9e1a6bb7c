// Package monitor serves a program's pages for people and monitoring: /healthz, /readyz, /metrics,
// and pages of the program's own.
package monitor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
)

// NewRegistry returns a metrics registry with the metrics of the Go runtime, the process and
// recovered panics.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), panics.Collector())
	return r
}

// Ready returns an error that says what is missing while the program is not ready; otherwise about
// may describe its state.
type Ready func() (about string, err error)

// Ask returns the text of /readyz and whether the program is ready.
func (r Ready) Ask() (said string, ready bool) {
	about, err := r()
	switch {
	case err != nil:
		return "not ready: " + err.Error(), false
	case about != "":
		return "ready: " + about, true
	default:
		return "ready", true
	}
}

// Serve serves the pages until ctx ends. /healthz answers 200 while the process can answer. /readyz
// answers 200 once ready returns no error, before that 503 with what is missing. /debug lists all
// pages.
func Serve(ctx context.Context, l net.Listener, access Access, metrics prometheus.Gatherer, ready Ready, pages ...Page) error {
	server := &http.Server{Handler: panics.Handler(access.guard(withIndex(append(own(metrics, ready), pages...)))), ReadHeaderTimeout: 5 * time.Second}
	stopped := context.AfterFunc(ctx, func() { server.Close() })
	defer stopped()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// own returns the pages that every program has.
func own(metrics prometheus.Gatherer, ready Ready) []Page {
	return []Page{
		{"/healthz", "Says ok as long as the process can answer.", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, "ok")
		})},
		{"/readyz", "Tells whether the program can do its work, and if not, what is missing.", readyPage(ready)},
		{"/metrics", "Metrics in Prometheus' format.", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{})},
	}
}

func readyPage(ready Ready) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		said, isReady := ready.Ask()
		if !isReady {
			http.Error(w, said, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, said)
	})
}
