package machine

import (
	"cmp"
	"fmt"
	"os"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/member"
)

// Bootstrap returns the bootstrap of the machine's Envoy, as JSON.
func (m *Machine) Bootstrap(who *member.Member) ([]byte, error) {
	o, err := m.Proxy(who)
	if err != nil {
		return nil, err
	}
	b, err := bootstrap.New(o)
	if err != nil {
		return nil, err
	}
	data, err := bootstrap.JSON(b)
	if err != nil || m.Template == "" {
		return data, err
	}
	return bootstrap.Complete(data, m.Template, o)
}

// Proxy returns who the machine's proxy is. What flags leave open comes from the identity,
// discovery and the machine itself.
func (m *Machine) Proxy(who *member.Member) (bootstrap.Options, error) {
	o := m.Given
	o.XDS, o.Role, o.Interception = bootstrap.XDS(m.xds), bootstrap.Role(m.role), m.Mode()
	o.Tuning = m.tuning.envoy()
	o.Identity, o.Resolver = who.Source != member.Insecure, m.DNS.ProxyAddress()
	var err error
	if o.Socket, err = m.EnvoySocket(); err != nil {
		return o, err
	}
	if err := setIdentity(&o, who); err != nil {
		return o, err
	}
	servers, err := m.Servers()
	if err != nil {
		return o, err
	}
	host, err := os.Hostname()
	if err != nil && cmp.Or(o.ID, m.State.ID()) == "" {
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
	o.ID = cmp.Or(o.ID, m.State.ID(), host+"."+o.Namespace)
	o.Domain = cmp.Or(o.Domain, o.Namespace+".svc.cluster.local")
	err = m.place(&o)
	return o, err
}

// setIdentity takes namespace and service account from the machine's certificate, which discovery
// enforces.
func setIdentity(o *bootstrap.Options, who *member.Member) error {
	if who.Source == member.Insecure {
		return nil
	}
	for _, each := range []struct {
		flag, certificate string
		value             *string
	}{
		{"namespace", who.Namespace, &o.Namespace},
		{"service-account", who.ServiceAccount, &o.ServiceAccount},
	} {
		if *each.value != "" && *each.value != each.certificate {
			return fmt.Errorf("--%s %s: this machine's certificate is for %s, and discovery believes that alone: leave the flag out, "+
				"or join with a token for %[2]s", each.flag, *each.value, who.Workload)
		}
		*each.value = each.certificate
	}
	return nil
}
