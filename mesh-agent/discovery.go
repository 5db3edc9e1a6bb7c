package main

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
)

// discoveryFlags say where discovery is.
type discoveryFlags struct {
	flag      string
	addresses []string
}

func (f *discoveryFlags) declare(flags *pflag.FlagSet, name, usage string) {
	f.flag = name
	flags.StringSliceVar(&f.addresses, name, nil, usage)
}

func (f *discoveryFlags) check() error {
	if len(f.addresses) == 0 {
		return fmt.Errorf("where is discovery? Say it with --%s host:port", f.flag)
	}
	if err := upstream.CheckAddresses(f.addresses); err != nil {
		return fmt.Errorf("%w: correct --%s, or the variable PGMESH_%s if it is from there", err, f.flag, strings.ToUpper(f.flag))
	}
	return nil
}

// servers returns the addresses of discovery: those of the flag, or where the machine joined.
func (m *member) servers() ([]string, error) {
	f := m.discovery
	if len(f.addresses) == 0 && !m.insecure {
		f.addresses = m.state.Servers()
	}
	return f.addresses, f.check()
}

// connect starts to connect to discovery with this machine's identity.
func (m *member) connect(who *machine, log *slog.Logger, metrics prometheus.Registerer) (*upstream.Upstream, error) {
	servers, err := m.servers()
	if err != nil {
		return nil, err
	}
	o := upstream.Options{Addresses: servers, Log: log, Metrics: metrics}
	switch {
	case who == nil:
	case who.member != nil:
		o.Credentials = upstream.Member(who.member)
	default:
		if o.Credentials, err = upstream.Files(who.files.cert, who.files.key, who.files.roots, log); err != nil {
			return nil, err
		}
	}
	return upstream.Dial(o)
}

// addressTowards returns this machine's address on the route to any of others, without sending anything. If
// names cannot be resolved, as at boot before DNS works, it uses the default route.
func addressTowards(addresses []string) (string, error) {
	var failed []error
	for _, address := range append(slices.Clone(addresses), "192.0.2.1:9") { // reserved by RFC 5737
		conn, err := net.Dial("udp", address)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		defer conn.Close()
		host, _, err := net.SplitHostPort(conn.LocalAddr().String())
		return host, err
	}
	return "", failed[0]
}
