package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/pflag"
)

// options are the values of the flags.
type options struct {
	data, bin, envoy string
	once             bool
	ports            ports
}

// ports has the ports of all parts, on 127.0.0.1.
type ports struct {
	postgres, mcp, mcpHTTP, mcpAPI, xds, discoveryHTTP, admin, service, v1, v2 int
}

// portFlag is a port and its flag.
type portFlag struct {
	flag  string
	value *int
	usual int
	use   string
}

// flags lists the ports. The defaults are those of the programs' own flags, and of Istio.
func (p *ports) flags() []portFlag {
	return []portFlag{
		{"postgres-port", &p.postgres, 15432, "Postgres"},
		{"mcp-port", &p.mcp, 15020, "mcp-server: MCP and the admin API"},
		{"mcp-http-port", &p.mcpHTTP, 15021, "mcp-server: health and metrics"},
		{"mcp-api-port", &p.mcpAPI, 15022, "mcp-server: the admin API over HTTP"},
		{"xds-port", &p.xds, 15010, "discovery: xDS"},
		{"discovery-http-port", &p.discoveryHTTP, 15014, "discovery: health and metrics"},
		{"admin-port", &p.admin, 15000, "Envoy's admin API"},
		{"service-port", &p.service, 18080, "Envoy's listener for the service"},
		{"v1-port", &p.v1, 18081, "the service, version v1"},
		{"v2-port", &p.v2, 18082, "the service, version v2"},
	}
}

func (o *options) declare(flags *pflag.FlagSet) {
	flags.StringVar(&o.data, "data", ".demo", "folder for data and logs; a later start finds the data again")
	flags.StringVar(&o.bin, "bin", binFolder(), "folder with the programs")
	flags.StringVar(&o.envoy, "envoy", os.Getenv("ENVOY"), "the Envoy to run (default: $ENVOY, or what make tools fetched)")
	flags.BoolVar(&o.once, "once", false, "end after the measured shift")
	for _, p := range o.ports.flags() {
		flags.IntVar(p.value, p.flag, p.usual, p.use)
	}
}

// complete sets defaults, and checks that the ports are free before anything starts.
func (o *options) complete() error {
	if o.envoy == "" {
		o.envoy = filepath.Join(".tools", "envoy", "envoy")
	}
	for _, p := range o.ports.flags() {
		listener, err := net.Listen("tcp", local(*p.value))
		if err != nil {
			return fmt.Errorf("port %d is needed for %s and is in use (%w): end what listens there, or choose another with --%s "+
				"(make demo FLAGS=--%s=%d)", *p.value, p.use, err, p.flag, p.flag, *p.value+1)
		}
		listener.Close()
	}
	return nil
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
