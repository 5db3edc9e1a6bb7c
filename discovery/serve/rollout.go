package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/discovery/rollout"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// reporter tells mcp-server which revision each proxy runs.
func (o *Options) reporter(who mode, of rollout.Proxies, metrics prometheus.Registerer) *rollout.Reporter {
	name, _ := o.Identity.names()
	config := rollout.Config{Name: name, Proxies: of, Log: o.Log, Metrics: metrics}
	if conn := who.server(); conn != nil && o.ReportProxies {
		config.Server = rolloutv1.NewRolloutServiceClient(conn)
	}
	return rollout.New(config)
}
