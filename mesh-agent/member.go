package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mesh-agent/bootstrap"
)

// bootstrapCommand shows what Envoy would be started with.
func bootstrapCommand() *cobra.Command {
	var m member
	cmd := &cobra.Command{
		Use:   "bootstrap",
		Short: "Print the bootstrap that `mesh-agent run` gives to Envoy",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			data, err := m.bootstrap()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), string(data))
			return err
		},
	}
	m.declare(cmd.Flags())
	return cmd
}

// member is what the flags say about this machine's place in the mesh.
type member struct {
	options      bootstrap.Options
	xds          string
	role         string
	interception string
	insecure     bool
}

func (m *member) declare(flags *pflag.FlagSet) {
	o := &m.options
	flags.StringVar(&o.Discovery, "discovery", "", "address of discovery, host:port (required)")
	flags.BoolVar(&m.insecure, "insecure", false, "speak plaintext with discovery (required: mutual TLS is not there yet)")
	flags.StringVar(&m.xds, "xds", string(bootstrap.Delta), "variant of xDS: delta or sotw")
	flags.StringVar(&m.role, "role", string(bootstrap.Sidecar), "what this proxy does: sidecar, for the machine's applications, or gateway, for those outside the mesh")
	flags.StringVar(&o.IP, "node-ip", "", "address that others reach this machine by (default: the one that leads to discovery)")
	flags.StringVar(&o.ID, "id", "", "name of this proxy, unique in the mesh (default: HOSTNAME.NAMESPACE)")
	flags.StringVar(&o.Namespace, "namespace", "default", "namespace of this machine")
	flags.StringVar(&o.Domain, "domain", "", "domain that completes short host names (default: NAMESPACE.svc.cluster.local)")
	flags.StringVar(&o.ServiceAccount, "service-account", "", "service account of this machine")
	flags.StringToStringVar(&o.Labels, "labels", nil, "labels of this machine: app=reviews,version=v1")
	flags.StringVar(&m.interception, "interception-mode", string(bootstrap.None), "how traffic comes to Envoy: NONE, REDIRECT or TPROXY")
	flags.StringVar(&o.Admin, "admin", "127.0.0.1:15000", "address of Envoy's admin API, on loopback; port 0 takes any free one")
}

// bootstrap completes what the flags left open and renders the result for Envoy.
func (m *member) bootstrap() ([]byte, error) {
	o, err := m.complete()
	if err != nil {
		return nil, err
	}
	b, err := bootstrap.New(o)
	if err != nil {
		return nil, err
	}
	return bootstrap.JSON(b)
}

func (m *member) complete() (bootstrap.Options, error) {
	o := m.options
	o.XDS, o.Role, o.Interception = bootstrap.XDS(m.xds), bootstrap.Role(m.role), bootstrap.Interception(m.interception)
	if o.Discovery == "" {
		return o, errors.New("where is discovery? Say it with --discovery host:port")
	}
	if !m.insecure {
		return o, errors.New("mutual TLS with discovery is not there yet: pass --insecure to speak plaintext")
	}
	host, err := os.Hostname()
	if err != nil && o.ID == "" {
		return o, fmt.Errorf("find out the host name: %w; name this proxy with --id", err)
	}
	if o.IP == "" {
		if o.IP, err = addressTowards(o.Discovery); err != nil {
			return o, fmt.Errorf("find out this machine's address: %w; say it with --node-ip", err)
		}
	}
	o.ID = cmp.Or(o.ID, host+"."+o.Namespace)
	o.Domain = cmp.Or(o.Domain, o.Namespace+".svc.cluster.local")
	return o, nil
}

// addressTowards asks the routing table; nothing is sent.
func addressTowards(address string) (string, error) {
	conn, err := net.Dial("udp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}
