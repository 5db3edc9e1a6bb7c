package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
)

const maxPort = 65535

// options are the values of the flags.
type options struct {
	data, bin, envoy string
	once             bool
	ports            ports
}

// ports has the ports of all parts, on 127.0.0.1.
type ports struct {
	postgres, mcp, mcpHTTP, mcpAPI, xds, discoveryHTTP, admin, status, service, v1, v2 int
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
		{"status-port", &p.status, 15026, "mesh-agent: health and metrics"},
		{"service-port", &p.service, 18080, "Envoy's listener for the service"},
		{"v1-port", &p.v1, 18081, "the service, version v1"},
		{"v2-port", &p.v2, 18082, "the service, version v2"},
	}
}

func (o *options) declare(flags *pflag.FlagSet) {
	flags.StringVar(&o.data, "data", ".demo", "folder for data and logs; a later start finds the data again")
	flags.StringVar(&o.bin, "bin", binFolder(), "folder with the programs")
	flags.StringVar(&o.envoy, "envoy", os.Getenv("ENVOY"), "the Envoy to run (default: $ENVOY, or one beside the programs, or what make tools fetched)")
	flags.BoolVar(&o.once, "once", false, "end after the measured shift")
	for _, p := range o.ports.flags() {
		flags.IntVar(p.value, p.flag, p.usual, p.use)
	}
}

// complete sets defaults, and checks that the ports are free before anything starts.
func (o *options) complete() error {
	if o.envoy == "" {
		o.envoy = usualEnvoy(o.bin)
	}
	var taken, others []string
	for _, p := range o.ports.flags() {
		switch err := try(*p.value); {
		case errors.Is(err, syscall.EADDRINUSE):
			taken = append(taken, fmt.Sprintf("port %d is needed for %s and is in use", *p.value, p.use))
			others = append(others, fmt.Sprintf("--%s=%d", p.flag, elsewhere(*p.value)))
		case err != nil:
			return fmt.Errorf("--%s %d: %w", p.flag, *p.value, err)
		}
	}
	if len(taken) > 0 {
		return fmt.Errorf("%s: end what listens there, or choose other ports (make demo FLAGS='%s')", strings.Join(taken, ", "), strings.Join(others, " "))
	}
	return nil
}

var errNoPort = errors.New("a port is a number from 1 to 65535")

// usualEnvoy returns the Envoy that is beside the programs, as in a release, or else the repository's.
func usualEnvoy(bin string) string {
	if beside := filepath.Join(bin, "envoy"); isFile(beside) {
		return beside
	}
	return filepath.Join(".tools", "envoy", "envoy")
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// try returns why nobody can listen on a port.
func try(port int) error {
	if port < 1 || port > maxPort {
		return errNoPort
	}
	listener, err := net.Listen("tcp", local(port))
	if err != nil {
		return err
	}
	return listener.Close()
}

// elsewhere returns a free port with the same last three digits, which no two defaults share.
func elsewhere(port int) int {
	for other := port + 1000; other <= maxPort; other += 1000 {
		if try(other) == nil {
			return other
		}
	}
	return port
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
