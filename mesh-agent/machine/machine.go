// Package machine is what one machine of the mesh is: what its flags and its file say, what
// discovery adds to that, and what follows for its proxy, its services and its traffic. It runs
// nothing.
package machine

import (
	"context"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/host/redirect"
	"github.com/pgmesh/pgmesh/mesh-agent/host/resolver"
	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/member"
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// Machine is one machine of the mesh.
type Machine struct {
	State     statedir.Folder
	Identity  member.Options
	Discovery upstream.Servers
	DNS       resolver.Options
	Redirect  redirect.Options
	// Given is what flags say of the proxy. Proxy completes it.
	Given bootstrap.Options
	// File has the services of this machine. It may be nil.
	File *settings.File
	// KeepSecrets has also the secrets that come from discovery kept on disk.
	KeepSecrets bool
	// Template is the file that is merged over Envoy's bootstrap, "" for none.
	Template string

	xds          string
	role         string
	gateway      string // the name of a Gateway of the Gateway API; "" for none
	interception string
	placement    placement
	tuning       tuning
	ssh          *redirect.SSH // it remembers what it has found

	flags *pflag.FlagSet              // to see which were given
	mesh  *machinev1.SettingsResponse // discovery's settings for this machine; nil until it answers
}

// Flags declares the flags that say what this machine is.
func (m *Machine) Flags(flags *pflag.FlagSet) {
	m.flags, m.ssh = flags, &redirect.SSH{}
	o := &m.Given
	m.Discovery.Flags(flags, "discovery", "addresses of discovery, host:port; with several, or a name that stands for several, any that answers (default: where this machine joined)")
	flags.StringVar(&m.xds, "xds", string(bootstrap.Delta), "variant of xDS: delta or sotw")
	flags.StringVar(&m.role, "role", string(bootstrap.Sidecar), "what this proxy does: sidecar, for the machine's applications, or gateway, for those outside the mesh")
	flags.StringVar(&m.gateway, "gateway", "", "with --role gateway: name of the Gateway of the Gateway API, in the machine's namespace, that this proxy serves")
	flags.StringVar(&o.IP, "node-ip", "", "address that others reach this machine by (default: the one that leads to discovery)")
	flags.StringVar(&o.ID, "id", "", "name of this proxy, unique in the mesh (default: HOSTNAME.NAMESPACE)")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of this machine (default: that of its certificate, or \"default\" with --insecure)")
	flags.StringVar(&o.Domain, "domain", "", "domain that completes short host names (default: NAMESPACE.svc.cluster.local)")
	flags.StringVar(&o.ServiceAccount, "service-account", "", "service account of this machine (default: that of its certificate)")
	flags.StringToStringVar(&o.Labels, "labels", nil, "labels of this machine: app=reviews,version=v1")
	flags.StringVar(&m.interception, "interception-mode", "", "how traffic comes to Envoy: NONE, REDIRECT or TPROXY (default: REDIRECT with --redirect, NONE without)")
	flags.BoolVar(&m.KeepSecrets, "keep-secrets", false, "keep on disk also the certificates and keys of a gateway that come from discovery, "+
		"in a file that this account alone may read: without them it does not serve TLS after a restart while discovery is away")
	flags.StringVar(&o.Admin, "admin", "127.0.0.1:15000", "address of Envoy's admin API, on loopback; port 0 takes any free one")
	m.State.Flags(flags)
	m.Identity.Flags(flags)
	m.DNS.Flags(flags)
	m.placementFlags(flags)
	m.Redirect.Flags(flags)
	m.tuningFlags(flags)
}

// Servers returns the addresses of discovery: those of the flag, or where the machine joined.
func (m *Machine) Servers() ([]string, error) {
	s := m.Discovery
	if len(s.Addresses) == 0 && !m.Identity.Insecure {
		s.Addresses = m.State.Servers()
	}
	return s.Addresses, s.Check()
}

// ServerHosts returns the host names of discovery, without the ports.
func (m *Machine) ServerHosts() (out []string) {
	servers, err := m.Servers()
	if err != nil {
		return nil // reported where they are needed
	}
	for _, at := range servers {
		if host, _, err := net.SplitHostPort(at); err == nil {
			out = append(out, host)
		}
	}
	return out
}

// Member returns this machine's identity. A machine that is no member yet joins if there is a
// credential.
func (m *Machine) Member(ctx context.Context, log *slog.Logger, metrics prometheus.Registerer) (*member.Member, error) {
	if !m.Identity.Insecure {
		if _, err := m.EnvoySocket(); err != nil {
			return nil, err // before it joins
		}
	}
	o := m.Identity
	o.Folder, o.Servers, o.Log, o.Metrics = &m.State, m.Servers, log, metrics
	return member.Open(ctx, &o)
}

// Connect begins to connect to discovery, as who this machine is.
func (m *Machine) Connect(who *member.Member, log *slog.Logger, metrics prometheus.Registerer) (*upstream.Upstream, error) {
	servers, err := m.Servers()
	if err != nil {
		return nil, err
	}
	o := upstream.Options{Addresses: servers, Log: log, Metrics: metrics}
	if o.Credentials, err = who.Credentials(log); err != nil {
		return nil, err
	}
	return upstream.Dial(o)
}

// EnvoySocket returns the path of the socket at which Envoy gets its configuration and its secrets.
func (m *Machine) EnvoySocket() (string, error) {
	return listen.UnixPath("state-dir", m.State.Path, "envoy.sock")
}
