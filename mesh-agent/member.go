package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/host/statedir"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/join"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/upstream"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// bootstrapCommand prints the bootstrap for Envoy.
func bootstrapCommand() *cobra.Command {
	var m member
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Print the bootstrap that `mesh-agent run` gives to Envoy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			m.credential = join.Credential{} // printing must not join
			who, err := m.machine(cmd.Context(), program.Log(cmd), nil)
			if err != nil {
				return err
			}
			data, err := m.bootstrap(who)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), string(data))
			return err
		},
	}
	m.declare(cmd.Flags())
	m.registration.file = &configFlag{}
	m.registration.file.declare(cmd)
	return cmd
}

// member has the flags about this machine's place in the mesh.
type member struct {
	flags        *pflag.FlagSet // to see which were given
	options      bootstrap.Options
	xds          string
	role         string
	interception string
	insecure     bool
	discovery    upstream.Servers
	state        statedir.Folder
	files        certificateFlags
	credential   join.Credential
	keep         keepFlags
	dns          dnsFlags
	registration registration
	sts          stsFlags
	redirect     redirectFlags
	tuning       tuningFlags

	meshSettings *machinev1.SettingsResponse // discovery's settings for this machine; nil until it answers
}

func (m *member) declare(flags *pflag.FlagSet) {
	o := &m.options
	m.discovery.Flags(flags, "discovery", "addresses of discovery, host:port; with several, or a name that stands for several, any that answers (default: where this machine joined)")
	flags.BoolVar(&m.insecure, "insecure", false, "have no identity, and speak plaintext with discovery; for a demo")
	flags.StringVar(&m.xds, "xds", string(bootstrap.Delta), "variant of xDS: delta or sotw")
	flags.StringVar(&m.role, "role", string(bootstrap.Sidecar), "what this proxy does: sidecar, for the machine's applications, or gateway, for those outside the mesh")
	flags.StringVar(&o.IP, "node-ip", "", "address that others reach this machine by (default: the one that leads to discovery)")
	flags.StringVar(&o.ID, "id", "", "name of this proxy, unique in the mesh (default: HOSTNAME.NAMESPACE)")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of this machine (default: that of its certificate, or \"default\" with --insecure)")
	flags.StringVar(&o.Domain, "domain", "", "domain that completes short host names (default: NAMESPACE.svc.cluster.local)")
	flags.StringVar(&o.ServiceAccount, "service-account", "", "service account of this machine (default: that of its certificate)")
	flags.StringToStringVar(&o.Labels, "labels", nil, "labels of this machine: app=reviews,version=v1")
	flags.StringVar(&m.interception, "interception-mode", "", "how traffic comes to Envoy: NONE, REDIRECT or TPROXY (default: REDIRECT with --redirect, NONE without)")
	m.state.Flags(flags)
	m.files.declare(flags)
	m.credential.Flags(flags)
	m.keep.declare(flags)
	m.dns.declare(flags)
	m.registration.declare(flags, o)
	m.redirect.declare(flags)
	m.tuning.declare(flags)
	flags.StringVar(&o.Admin, "admin", "127.0.0.1:15000", "address of Envoy's admin API, on loopback; port 0 takes any free one")
}

// bootstrap fills in what the flags leave open and renders the bootstrap.
func (m *member) bootstrap(who *machine) ([]byte, error) {
	o, err := m.complete(who)
	if err != nil {
		return nil, err
	}
	b, err := bootstrap.New(o)
	if err != nil {
		return nil, err
	}
	data, err := bootstrap.JSON(b)
	if err != nil || m.tuning.template == "" {
		return data, err
	}
	return bootstrap.Complete(data, m.tuning.template, o)
}

func (m *member) complete(who *machine) (bootstrap.Options, error) {
	o := m.options
	o.XDS, o.Role, o.Interception = bootstrap.XDS(m.xds), bootstrap.Role(m.role), m.mode()
	o.Tuning = m.tuning.tuning()
	o.Identity, o.Resolver = who != nil, m.dns.proxyAddress()
	var err error
	if o.Socket, err = m.envoySocket(); err != nil {
		return o, err
	}
	if err := who.setIdentity(&o); err != nil {
		return o, err
	}
	servers, err := m.servers()
	if err != nil {
		return o, err
	}
	host, err := os.Hostname()
	if err != nil && o.ID == "" {
		return o, fmt.Errorf("find out the host name: %w; name this proxy with --id", err)
	}
	if o.IP == "" {
		if o.IP, err = addressTowards(servers); err != nil {
			return o, fmt.Errorf("find out this machine's address: %w; say it with --node-ip", err)
		}
	}
	if o.Interception != bootstrap.None {
		o.OtherIPs = otherFamily(o.IP) // Envoy accepts redirected connections for the families it has addresses of
	}
	o.Namespace = cmp.Or(o.Namespace, "default")
	o.ID = cmp.Or(o.ID, host+"."+o.Namespace)
	o.Domain = cmp.Or(o.Domain, o.Namespace+".svc.cluster.local")
	err = m.addPlacement(&o)
	return o, err
}

// setIdentity takes namespace and service account from the machine's certificate, which discovery enforces.
func (m *machine) setIdentity(o *bootstrap.Options) error {
	if m == nil {
		return nil
	}
	for _, each := range []struct {
		flag, certificate string
		value             *string
	}{
		{"namespace", m.Namespace, &o.Namespace},
		{"service-account", m.ServiceAccount, &o.ServiceAccount},
	} {
		if *each.value != "" && *each.value != each.certificate {
			return fmt.Errorf("--%s %s: this machine's certificate is for %s, and discovery believes that alone: leave the flag out, "+
				"or join with a token for %[2]s", each.flag, *each.value, m.Workload)
		}
		*each.value = each.certificate
	}
	return nil
}
