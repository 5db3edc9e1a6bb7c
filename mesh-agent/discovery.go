package main

import (
	"log/slog"
	"net"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
)

// servers returns the addresses of discovery: those of the flag, or where the machine joined.
func (m *member) servers() ([]string, error) {
	f := m.discovery
	if len(f.Addresses) == 0 && !m.insecure {
		f.Addresses = m.state.Servers()
	}
	return f.Addresses, f.Check()
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
