package announce

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/registry/consul/catalog"
	"github.com/pgmesh/pgmesh/registry/service"
)

// The meta of what is announced, beside catalog.SourceMeta.
const (
	metaBy       = "pgmesh-announcer" // the name of the announcer
	metaResource = "pgmesh-resource"  // the resource, to look for in the mesh
	metaLocality = "pgmesh-locality"
	metaProtocol = "protocol"
)

// What Consul takes, and what it would take and choke on.
const (
	mostMeta      = 64
	mostMetaKey   = 128
	mostMetaValue = 512
	mostTags      = 64
	mostWeight    = 65535
	tagLabel      = "tag.consul/" // a label of this name is a tag, as it is for those that come from Consul
)

var (
	goodName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	goodKey  = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
)

// instance is an instance of a service as the catalog has it, with its check.
type instance struct {
	ID      string
	Service string
	Address string
	Port    uint32
	Tags    []string
	Meta    map[string]string
	Weights weights
	status  string
}

type weights struct{ Passing, Warning uint32 }

func (i *instance) equal(o *instance) bool {
	return i.ID == o.ID && i.Service == o.Service && i.Address == o.Address && i.Port == o.Port && i.Weights == o.Weights &&
		i.status == o.status && slices.Equal(i.Tags, o.Tags) && maps.Equal(i.Meta, o.Meta)
}

// nameOf is what a service is called in Consul.
func (s *settings) nameOf(of *service.Service) (string, error) {
	name := s.prefix + of.Name
	if !goodName.MatchString(name) {
		return "", fmt.Errorf("%q is no name that Consul's DNS can answer for: give another by the annotation pgmesh.io/announce, of lower-case letters, digits and -", name)
	}
	if name == catalog.Servers {
		return "", fmt.Errorf("%q is what the servers of Consul are called: give another name by the annotation pgmesh.io/announce", name)
	}
	return name, nil
}

// instances are those of a service. A service of Consul has one port: the first is that of the
// service, and each other that of one called after it.
func (s *settings) instances(resource, name string, of *service.Service) ([]*instance, error) {
	ports := slices.DeleteFunc(slices.Clone(of.Ports), func(p service.Port) bool { return p.Protocol == "UDP" }) // Consul cannot say so of a port
	if len(ports) == 0 {
		return nil, errors.New("the service has no port for connections")
	}
	var all []*instance
	there := map[string]bool{}
	for n, port := range ports {
		called := name
		if n > 0 {
			if called = name + "-" + port.Name; !goodName.MatchString(called) {
				return nil, fmt.Errorf("%q, for a further port, is no name that Consul's DNS can answer for: name the port in lower-case letters, digits and -", called)
			}
		}
		for k := range of.Instances {
			i := s.instance(resource, called, port, &of.Instances[k])
			if i != nil && !there[i.ID] {
				there[i.ID] = true
				all = append(all, i)
			}
		}
	}
	return all, nil
}

// instance is nil for one that nobody else can reach.
func (s *settings) instance(resource, called string, port service.Port, of *service.Instance) *instance {
	if of.Address == "" || strings.HasPrefix(of.Address, "unix://") || strings.Contains(of.Address, "*") {
		return nil
	}
	at := cmp.Or(of.Ports[port.Name], port.Target, port.Number)
	i := &instance{
		Service: called, Address: of.Address, Port: at, Tags: slices.Clone(s.tags), Weights: weights{min(max(of.Weight, 1), mostWeight), 1},
		ID:   resource + "/" + called + "/" + net.JoinHostPort(of.Address, strconv.FormatUint(uint64(at), 10)),
		Meta: s.meta(resource, port, of), status: "passing",
	}
	for _, key := range slices.Sorted(maps.Keys(of.Labels)) {
		if tag, is := strings.CutPrefix(key, tagLabel); is && len(i.Tags) < mostTags {
			i.Tags = append(i.Tags, tag)
		}
	}
	if of.Health != service.Healthy {
		i.status = "critical"
	}
	return i
}

// meta are the labels of an instance that Consul can have, and whose it is.
func (s *settings) meta(resource string, port service.Port, of *service.Instance) map[string]string {
	meta := map[string]string{catalog.SourceMeta: catalog.Source, metaBy: s.name, metaResource: resource}
	if protocol := strings.ToLower(port.Protocol); protocol != "" {
		meta[metaProtocol] = protocol
	}
	if of.Locality != "" && len(of.Locality) <= mostMetaValue {
		meta[metaLocality] = of.Locality
	}
	for _, key := range slices.Sorted(maps.Keys(of.Labels)) {
		value := of.Labels[key]
		_, taken := meta[key]
		if !taken && len(meta) < mostMeta && goodKey.MatchString(key) && !strings.HasPrefix(key, "consul-") && len(key) <= mostMetaKey && len(value) <= mostMetaValue {
			meta[key] = value
		}
	}
	return meta
}
