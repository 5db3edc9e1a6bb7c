package consul

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/consul/catalog"
	"github.com/pgmesh/pgmesh/registry/service"
)

// The keys of an instance's meta that say how the mesh has it. Keys of Consul have no dots.
const (
	metaProtocol = "protocol"
	metaPort     = "mesh-port"
	metaAccount  = "mesh-account"
)

const (
	drawnPort   = 80 // where a scheduler draws the ports of instances
	largestPort = 65535
	// nodePrefix comes before what the node of an instance says of itself, and tagPrefix before tags.
	nodePrefix = "node.consul/"
	tagPrefix  = "tag.consul/"
)

// label is what DNS can ask for, and Consul's does: it reads a dot as the end of a tag.
var label = regexp.MustCompile(`^[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?$`)

// resources makes what the mesh has of a service, from its instances by datacenter. There is one host
// for the service wherever it is, and one for each datacenter: web.service.consul and
// web.service.dc1.consul. Where several datacenters are read they lead to different instances.
func (s *settings) resources(name string, at map[string][]catalog.Instance, several bool) ([]*kinds.Resource, error) {
	if !label.MatchString(name) {
		return nil, fmt.Errorf("the name %q is no label of DNS, so nobody can ask for it, not even in Consul", name)
	}
	if !several {
		for _, here := range at {
			return s.made(s.service(name, name, here, s.zones(here[0].Datacenter)...))
		}
	}
	var whole, parts []*kinds.Resource
	if s.hosts.short {
		everywhere := slices.Concat(slices.Collect(maps.Values(at))...)
		var err error
		if whole, err = s.made(s.service(name, name, everywhere, "service.")); err != nil {
			return nil, err
		}
	}
	for _, here := range at {
		if !s.hosts.datacenter {
			break
		}
		datacenter := here[0].Datacenter
		part, err := s.made(s.service(name, name+"."+datacenter, here, "service."+datacenter+"."))
		if err != nil {
			return nil, err
		}
		parts = append(parts, part...)
	}
	return append(whole, parts...), nil
}

// zones are what comes after the name of a service of one datacenter.
func (s *settings) zones(datacenter string) []string {
	var zones []string
	if s.hosts.short {
		zones = append(zones, "service.")
	}
	if s.hosts.datacenter {
		zones = append(zones, "service."+datacenter+".")
	}
	return zones
}

var errNoPort = errors.New("no instance has a port: give them one in Consul, or say with port which one all have")

func (s *settings) made(from *service.Service) ([]*kinds.Resource, error) {
	if len(from.Ports) == 0 {
		return nil, errNoPort
	}
	return from.Resources(s.name)
}

func (s *settings) service(name, key string, all []catalog.Instance, under ...string) *service.Service {
	out := &service.Service{
		Name: key, Entry: entryOf(name), Namespace: s.into, Ports: s.ports(all),
		Labels: common(all),
	}
	for _, zone := range under {
		out.Hosts = append(out.Hosts, name+"."+zone+s.domain)
	}
	out.Instances = make([]service.Instance, 0, len(all))
	for i := range all {
		out.Instances = append(out.Instances, s.instance(&all[i], out.Ports))
	}
	return out
}

// entryOf is how people find a service in Consul.
func entryOf(name string) string { return "service " + name }

// ports are where clients reach a service. Consul has one port for each instance, and none for a
// service.
func (s *settings) ports(all []catalog.Instance) []service.Port {
	numbers := make([]uint32, len(all))
	for i := range all {
		numbers[i] = portOf(&all[i], s.port)
	}
	return service.PortsOf(protocolOf(all), drawnPort, numbers)
}

// portOf is where clients reach an instance: what its meta says, else what the registry says for all,
// else where it listens.
func portOf(i *catalog.Instance, otherwise uint32) uint32 {
	if n, err := strconv.ParseUint(i.Meta[metaPort], 10, 16); err == nil && n > 0 {
		return uint32(n)
	}
	if otherwise == 0 && i.Port > 0 && i.Port <= largestPort {
		return uint32(i.Port)
	}
	return otherwise
}

// protocolOf is what all instances agree on. Where they do not, all that is known is that it is TCP.
func protocolOf(all []catalog.Instance) string {
	protocol := ""
	for i := range all {
		said := service.Protocol(all[i].Meta[metaProtocol])
		if said == "" || protocol != "" && said != protocol {
			return ""
		}
		protocol = said
	}
	return protocol
}

func (s *settings) instance(i *catalog.Instance, ports []service.Port) service.Instance {
	out := service.Instance{
		Address: i.Address, Weight: uint32(max(i.Weight, 1)), Locality: locality(i), Account: i.Meta[metaAccount],
		Labels: labels(i), Ports: service.At(ports, uint32(i.Port)),
	}
	if i.Status == catalog.Critical || i.Weight == 0 || i.Status == catalog.Warning && s.passing {
		out.Health = service.Unhealthy
	}
	return out
}

// locality is the datacenter, unless Consul knows a region, and the zone.
func locality(i *catalog.Instance) string {
	region, zone := cmp.Or(i.Locality.Region, i.Datacenter), cmp.Or(i.Locality.Zone, i.NodeMeta["zone"])
	if zone == "" {
		return region
	}
	return region + "/" + zone
}

// labels tell subsets apart: the meta of the instance, its tags, and the meta of its node.
func labels(i *catalog.Instance) map[string]string {
	out := make(map[string]string, len(i.Meta)+len(i.Tags)+len(i.NodeMeta))
	for key, value := range i.NodeMeta {
		if value != "" {
			out[nodePrefix+key] = value
		}
	}
	for _, tag := range i.Tags {
		if key, value, found := strings.Cut(tag, "="); found {
			out[key] = value
		} else {
			out[tagPrefix+tag] = "true"
		}
	}
	maps.Copy(out, i.Meta)
	return out
}

// common are the labels on which the meta of all instances agree: those of the service.
func common(all []catalog.Instance) map[string]string {
	out := maps.Clone(all[0].Meta)
	for i := range all {
		for key, value := range out {
			if all[i].Meta[key] != value {
				delete(out, key)
			}
		}
	}
	return out
}

// suits are the instances that the mesh is to have.
func (s *settings) suits(all []catalog.Instance) []catalog.Instance {
	if len(s.tags) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(i catalog.Instance) bool {
		return slices.ContainsFunc(s.tags, func(tag string) bool { return !slices.Contains(i.Tags, tag) })
	})
}
