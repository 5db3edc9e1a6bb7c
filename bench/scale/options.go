package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/bench/world"
)

// options are the values of the flags. Those with JSON names are the parameters of a result.
type options struct {
	World    world.World `json:"world"`
	Proxies  int         `json:"proxies"`
	Protocol string      `json:"protocol"`

	Workloads    bool              `json:"workloads"`
	Interception string            `json:"interception"`
	Metadata     map[string]string `json:"metadata,omitempty"`

	Only        []string      `json:"only"`
	Changes     int           `json:"changes"`
	Warmup      int           `json:"warmup"`
	Syncs       int           `json:"syncs"`
	Bulks       int           `json:"bulks"`
	Rows        int           `json:"rows"`
	Rest        time.Duration `json:"rest_ns"`
	EnvoyRoutes int           `json:"envoy_routes"`
	EnvoyRole   string        `json:"envoy_role"`
	Floor       bool          `json:"floor"`

	Source string `json:"source"`
	ADS    string `json:"ads,omitempty"`

	load                               bool
	pid                                int
	bin, envoy                         string
	postgres, configDir, changeCommand string
	json, plot                         string
}

var scenarios = []string{"first-sync", "route", "endpoint", "service", "bulk", "memory", "envoy"}

func (o *options) flags(f *pflag.FlagSet) {
	o.worldFlags(f)
	o.proxyFlags(f)
	f.StringSliceVar(&o.Only, "only", scenarios[:6], "what to measure, of "+strings.Join(scenarios, ", "))
	f.IntVar(&o.Changes, "changes", 100, "changes of a route, of an endpoint, and new services, each")
	f.IntVar(&o.Warmup, "warmup", 10, "changes of each sort before the measurement begins")
	f.IntVar(&o.Syncs, "syncs", 3, "how often all proxies connect together to a server that has just started")
	f.IntVar(&o.Bulks, "bulks", 3, "transactions of many rows")
	f.IntVar(&o.Rows, "rows", 10_000, "rows of each of those")
	f.DurationVar(&o.Rest, "rest", 150*time.Second, "how long proxies are idle before they are weighed; Go collects garbage every two minutes at least")
	f.IntVar(&o.EnvoyRoutes, "envoy-routes", 3000, "routes that are added one by one, each until a real Envoy answers by it")
	f.StringVar(&o.EnvoyRole, "envoy-role", "gateway", "what that Envoy is: a gateway, or a sidecar, for which each route brings a service along")
	f.StringVar(&o.envoy, "envoy", "", "that Envoy's binary (default $ENVOY, or the one in .tools)")
	f.BoolVar(&o.Floor, "floor", true, "in turns with the changes, have a bare server send as many bytes to as many streams")
	o.serverFlags(f)
	f.StringVar(&o.json, "json", "", "write the result to this file")
	f.StringVar(&o.plot, "plot", "", "draw the latencies into this file, as SVG")
}

func (o *options) worldFlags(f *pflag.FlagSet) {
	f.IntVar(&o.World.Services, "services", 1000, "services of the mesh")
	f.IntVar(&o.World.Endpoints, "endpoints", 5, "endpoints of each service")
	f.IntVar(&o.World.Namespaces, "namespaces", 20, "namespaces that services and proxies are spread over; --scope decides on it otherwise")
	f.IntVar(&o.World.Scope, "scope", 0, "services that a proxy sees: a tenth are seen by all proxies and are those that change, the rest are of its namespace; 0 for all")
	f.BoolVar(&o.World.Routes, "routes", true, "give each service a VirtualService")
	f.BoolVar(&o.World.Entries, "workload-entries", false, "make endpoints resources of their own, WorkloadEntries, in the place of parts of the ServiceEntries")
}

func (o *options) proxyFlags(f *pflag.FlagSet) {
	f.IntVar(&o.Proxies, "proxies", 500, "simulated proxies, each over a connection of its own")
	f.StringVar(&o.Protocol, "protocol", "delta", "the form of xDS that they speak: delta or sotw")
	f.BoolVar(&o.Workloads, "workloads", true, "have each proxy stand before an endpoint of a service of its namespace")
	f.StringVar(&o.Interception, "interception-mode", "REDIRECT", "how the proxies say that traffic comes to them: NONE, REDIRECT or TPROXY")
	f.StringToStringVar(&o.Metadata, "metadata", nil, "further metadata of the proxies' nodes, as KEY=VALUE")
}

func (o *options) serverFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Source, "source", "postgres", "what to start: postgres for Postgres, mcp-server and discovery; files for a discovery that watches a directory")
	f.StringVar(&o.bin, "bin", "", "folder of the programs to start (default: they are built)")
	f.StringVar(&o.ADS, "ads", "", "measure the ADS server at this address, and start nothing")
	f.IntVar(&o.pid, "pid", 0, "with --ads, the process to weigh and to take the processor time of")
	f.StringVar(&o.postgres, "postgres", "", "with --ads, the database with the mesh that the server serves")
	f.StringVar(&o.configDir, "config-dir", "", "with --ads, the directory that the server watches")
	f.StringVar(&o.changeCommand, "change-command", "", "with --ads, a shell command that applies the YAML on its standard input, such as 'kubectl apply -f -'")
	f.BoolVar(&o.load, "load", true, "with --ads, write the mesh before the proxies connect")
}

func (o *options) check() error {
	if err := errors.Join(
		among("protocol", o.Protocol, "delta", "sotw"), among("source", o.Source, "postgres", "files"), among("envoy-role", o.EnvoyRole, "sidecar", "gateway"),
		atLeast("services", o.World.Services, 1), atLeast("endpoints", o.World.Endpoints, 1), atLeast("namespaces", o.World.Namespaces, 1),
		atLeast("proxies", o.Proxies, 1), atLeast("changes", o.Changes, 1), atLeast("syncs", o.Syncs, 1), atLeast("rows", o.Rows, 2),
	); err != nil {
		return err
	}
	for _, name := range o.Only {
		if err := among("only", name, scenarios...); err != nil {
			return err
		}
	}
	return o.World.Lay()
}

func (o *options) measures(scenario string) bool { return slices.Contains(o.Only, scenario) }

// needsProxies reports whether anything but a real Envoy is measured.
func (o *options) needsProxies() bool {
	return slices.ContainsFunc(o.Only, func(s string) bool { return s != "envoy" })
}

func (o *options) who() world.Who {
	return world.Who{World: &o.World, Workloads: o.Workloads, Interception: o.Interception, Metadata: o.Metadata}
}

func among(flag, value string, known ...string) error {
	if slices.Contains(known, value) {
		return nil
	}
	return fmt.Errorf("--%s %s: expected one of %s", flag, value, strings.Join(known, ", "))
}

func atLeast(flag string, value, least int) error {
	if value >= least {
		return nil
	}
	return fmt.Errorf("--%s %d: expected at least %d", flag, value, least)
}
