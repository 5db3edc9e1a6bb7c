package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/scrape"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// scrapeFlags name the applications whose metrics the status port serves too.
type scrapeFlags struct {
	applications []string
	within       time.Duration
}

func (f *scrapeFlags) declare(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.applications, "scrape", nil,
		"where an application of this machine has its metrics, for /stats/prometheus of --status: URL, or NAME=URL to mark them with target=\"NAME\"; can be repeated")
	flags.DurationVar(&f.within, "scrape-timeout", 5*time.Second, "how long Envoy or an application may take to tell its metrics")
}

// open gives the status server its metrics, and the Envoy to ask and to drain.
func (f *scrapeFlags) open(server *status.Server, folder string, s *supervise.Supervisor, own *prometheus.Registry, metrics prometheus.Registerer) error {
	server.StateDir, server.Ready, server.Drain = folder, s.Ready, s.Drain
	server.Envoy, server.Metrics = envoyadmin.OfStateDir(folder), own
	p := &scrape.Page{Targets: []scrape.Target{envoyTarget(server.Envoy)}, Own: own, Within: f.within, Log: server.Log}
	for _, a := range f.applications {
		t, err := scrape.Application(a)
		if err != nil {
			return err
		}
		p.Targets = append(p.Targets, t)
	}
	p.Register(metrics)
	server.StatsPage = p
	return nil
}

// envoyTarget returns Envoy as a target. It passes on the client's query, such as usedonly and filter.
func envoyTarget(envoy *envoyadmin.Admin) scrape.Target {
	return scrape.Target{Name: "envoy", Open: func(ctx context.Context, _ scrape.Format, query url.Values) (io.ReadCloser, scrape.Format, error) {
		body, err := envoy.Get(ctx, "/stats/prometheus?"+query.Encode())
		return body, scrape.Text, err
	}}
}

// listenStatus returns nil for an empty address.
func listenStatus(address string, log *slog.Logger) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := listen.TCP("status", address)
	if err != nil {
		return nil, fmt.Errorf("open the status port: %w", err)
	}
	log.Info("status address open", "address", listener.Addr())
	return listener, nil
}
