// Package monitor serves what the people and machines that watch a program ask: /healthz, /readyz, /metrics, and pages of the program's own.
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

	"github.com/pgmesh/pgmesh/internal/panics"
)

// NewRegistry returns a metrics registry that has the Go runtime's and the process's own already, and the panics that were caught.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), panics.Collector())
	return r
}

// Ready tells what is missing before a program can do its work, and when nothing is, what there is to say about how it does it.
type Ready func() (about string, err error)

// Ask returns what /readyz says, and whether with success.
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

// Serve answers until the context ends. /healthz says 200 as long as the process can answer, /readyz once ready returns no error,
// and otherwise 503 with what is missing. /debug lists these and the given pages.
func Serve(ctx context.Context, l net.Listener, access Access, metrics prometheus.Gatherer, ready Ready, pages ...Page) error {
	server := &http.Server{Handler: panics.Handler(access.guard(book(append(own(metrics, ready), pages...)))), ReadHeaderTimeout: 5 * time.Second}
	stopped := context.AfterFunc(ctx, func() { server.Close() })
	defer stopped()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// own are the pages that every program has.
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
		said, is := ready.Ask()
		if !is {
			http.Error(w, said, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, said)
	})
}
