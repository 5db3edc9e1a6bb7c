package machine

import (
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
)

// tuning has the settings of Envoy other than the mesh's.
type tuning struct {
	bootstrap.Tuning

	heap uint64 // in MiB
	user string
}

func (m *Machine) tuningFlags(flags *pflag.FlagSet) {
	t := &m.tuning
	flags.StringVar(&m.Template, "bootstrap-template", "", "file with what is merged over Envoy's bootstrap: YAML or JSON, in which {{.ID}} and {{env \"NAME\"}} stand for what they say")
	flags.StringVar(&t.ServiceCluster, "service-cluster", "", "name of the application in Envoy's statistics and traces (default: APP.NAMESPACE by the label app, or the id)")
	flags.StringSliceVar(&t.StatsPrefixes, "stats-inclusion-prefixes", nil, "what Envoy measures beside what it always does, by how names begin")
	flags.StringSliceVar(&t.StatsSuffixes, "stats-inclusion-suffixes", nil, "what Envoy measures beside what it always does, by how names end")
	flags.StringSliceVar(&t.StatsRegexps, "stats-inclusion-regexps", nil, "what Envoy measures beside what it always does, by regular expressions for whole names; .* for everything")
	flags.StringVar(&t.Statsd, "statsd", "", "IP:port that Envoy sends its statistics to over UDP")
	flags.StringVar(&t.OutlierLog, "outlier-log-path", "", "file that Envoy writes down in which endpoints it ejects, and when they are back")
	flags.Uint64Var(&t.MaxConnections, "max-connections", 0, "how many connections clients may have open to Envoy at once, 0 for any number")
	flags.Uint64Var(&t.heap, "max-heap-mib", 0, "how much memory Envoy may use before it turns requests away, 0 for any amount")
	flags.StringToStringVar(&t.Runtime, "envoy-runtime", nil, "runtime settings of Envoy: envoy.reloadable_features.some_feature=false")
	flags.StringVar(&t.user, "envoy-user", "", "account that Envoy runs under (default: that of this agent); it may still listen on ports below 1024")
}

// envoy returns the settings as the bootstrap has them.
func (t *tuning) envoy() bootstrap.Tuning {
	out := t.Tuning
	out.MaxHeap = t.heap << 20
	return out
}

// EnvoyAccount returns the account that Envoy runs under, nil for this agent's.
func (m *Machine) EnvoyAccount() (*supervise.Account, error) {
	return supervise.FindAccount(m.tuning.user)
}
