package machine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
	"github.com/pgmesh/pgmesh/mesh-agent/host/locality"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/member"
	"github.com/pgmesh/pgmesh/mesh-agent/services/register"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// placement is where this machine is in the mesh, and what it serves there, as far as flags say.
type placement struct {
	groups    []string
	weight    uint32
	metadata  string
	allowExec bool
}

func (m *Machine) placementFlags(flags *pflag.FlagSet) {
	o, p := &m.Given, &m.placement
	flags.StringSliceVar(&p.groups, "group", nil,
		"WorkloadGroup that describes what runs on this machine, of its namespace (default: the one that its join token was for); several for several services")
	flags.StringVar(&o.Locality, "locality", "", "where this machine is: REGION, REGION/ZONE or REGION/ZONE/SUBZONE (default: as --metadata-file says)")
	flags.StringVar(&o.Network, "network", "", "network of this machine, in a mesh of several that do not reach each other")
	flags.Uint32Var(&p.weight, "weight", 0, "how many requests this machine is sent, in proportion to the others of its group; 0: as the group says")
	flags.StringVar(&p.metadata, "metadata-file", "",
		"JSON file in which the cloud says where this machine is: an AWS instance identity document, or the metadata of a GCP or Azure instance (default: "+locality.CloudInit+", if it is there)")
	flags.BoolVar(&p.allowExec, "allow-exec-probes", false, "run commands that a WorkloadGroup asks for to probe a service; those of this machine's own file run always")
}

// Services returns those in the file, then those of the groups in flags, or else that of the group
// the machine joined for.
func (m *Machine) Services() []register.Service {
	var all []register.Service
	if m.File != nil {
		for _, s := range m.File.Services {
			made := register.Service{Group: s.Group, Ports: s.Ports, Labels: s.Labels, Weight: cmp.Or(s.Weight, m.placement.weight), Readiness: s.Readiness}
			if s.Liveness != nil {
				made.Liveness, made.Action = s.Liveness.Probe, s.Liveness.Action
			}
			all = append(all, made)
		}
	}
	groups := m.placement.groups
	if joined := m.State.Group(); len(groups) == 0 && len(all) == 0 && joined != "" {
		groups = []string{joined}
	}
	for _, group := range groups {
		if !slices.ContainsFunc(all, func(s register.Service) bool { return s.Group == group }) {
			all = append(all, register.Service{Group: group, Weight: m.placement.weight})
		}
	}
	return all
}

// gatewayLabel is by what discovery, and policies that are attached to a Gateway, know the proxies
// that serve it.
const gatewayLabel = "gateway.networking.k8s.io/gateway-name"

// place completes locality, network and labels from flags, the services, instance metadata and the
// mesh.
func (m *Machine) place(o *bootstrap.Options) error {
	for _, group := range m.placement.groups {
		if strings.Contains(group, "/") {
			return fmt.Errorf("--group %s: write the name alone; its namespace is that of the machine", group)
		}
	}
	if o.Locality == "" {
		found, err := locality.Of(m.placement.metadata)
		if err != nil {
			return fmt.Errorf("--metadata-file: %w", err)
		}
		o.Locality = found
	}
	if m.gateway != "" && o.Role != bootstrap.Gateway {
		return fmt.Errorf("--gateway %s is for a proxy with --role gateway: add that, or leave the flag out", m.gateway)
	}
	labels := maps.Clone(o.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if m.gateway != "" {
		labels[gatewayLabel] = m.gateway
	}
	for _, s := range slices.Backward(m.Services()) { // the first service with a label wins
		maps.Copy(labels, s.Labels)
	}
	for name, value := range m.mesh.GetLabels() { // those of the groups
		if _, own := labels[name]; !own {
			labels[name] = value
		}
	}
	o.Labels = labels
	o.Network, o.Locality = cmp.Or(o.Network, m.mesh.GetNetwork()), cmp.Or(o.Locality, m.mesh.GetLocality())
	return nil
}

// Registration returns what discovery registers of this machine.
func (m *Machine) Registration(who *member.Member) (register.Options, error) {
	o, err := m.Proxy(who)
	if err != nil {
		return register.Options{}, err
	}
	return register.Options{
		Folder: m.State.Path, Services: m.Services(), AllowExec: m.placement.allowExec,
		Machine: &machinev1.Machine{
			Id: o.ID, Namespace: o.Namespace, ServiceAccount: o.ServiceAccount, Address: o.IP, Network: o.Network, Locality: o.Locality, Labels: m.Given.Labels,
		},
	}, nil
}
