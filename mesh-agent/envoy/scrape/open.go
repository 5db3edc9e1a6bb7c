package scrape

import (
	"context"
	"io"
	"log/slog"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
)

// Options say whose metrics are on the page, beside those of Envoy and the agent.
type Options struct {
	Applications []string // URL or NAME=URL
	Within       time.Duration
}

// Flags declares the flags of the page.
func (o *Options) Flags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.Applications, "scrape", nil,
		"where an application of this machine has its metrics, for /stats/prometheus of --status: URL, or NAME=URL to mark them with target=\"NAME\"; can be repeated")
	flags.DurationVar(&o.Within, "scrape-timeout", 5*time.Second, "how long Envoy or an application may take to tell its metrics")
}

// Open returns the page of an Envoy, the applications and the agent itself. It registers metrics
// about them.
func Open(o Options, envoy *envoyadmin.Admin, own prometheus.Gatherer, log *slog.Logger, metrics prometheus.Registerer) (*Page, error) {
	p := &Page{Own: own, Within: o.Within, Log: log}
	p.Targets = []Target{Envoy(envoy, log, p.counted)}
	for _, a := range o.Applications {
		t, err := Application(a)
		if err != nil {
			return nil, err
		}
		p.Targets = append(p.Targets, t)
	}
	p.Register(metrics)
	return p, nil
}

// Envoy returns Envoy as a target. It passes on the client's query, such as usedonly and filter.
// Istio's standard metrics get Istio's names; counted is called for each of them.
func Envoy(envoy *envoyadmin.Admin, log *slog.Logger, counted func()) Target {
	over := &overflow{log: log}
	return Target{Name: "envoy", Open: func(ctx context.Context, _ Format, query url.Values) (io.ReadCloser, Format, error) {
		body, err := envoy.Get(ctx, "/stats/prometheus?"+query.Encode())
		if err != nil {
			return nil, Text, err
		}
		return newStandardReader(body, over.seen, counted), Text, nil
	}}
}
