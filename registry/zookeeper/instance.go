package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/registry/service"
)

// The keys of what an instance says of itself that say how the mesh has it.
const (
	keyProtocol = "protocol"
	keyPort     = "mesh-port"
	keyAccount  = "mesh-account"
	keyWeight   = "weight"
	keyRegion   = "region"
	keyZone     = "zone"
)

const (
	largestPort = 65535
	// mostWeight is what a registry may say. Envoy adds up the weights of a locality in 32 bits.
	mostWeight = 100_000
	// mostContent bounds what an instance says of itself. ZooKeeper takes a megabyte.
	mostContent = 64 << 10
)

// host is a name that DNS can be asked for.
var host = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`)

// number is how a name cannot end: it would be part of an address.
var number = regexp.MustCompile(`(^|\.)[0-9]+$`)

// longestHost is that of DNS.
const longestHost = 253

func validHost(name string) bool {
	return len(name) <= longestHost && host.MatchString(name) && !number.MatchString(name)
}

// instance is what a leaf says.
type instance struct {
	service.Instance

	port     uint32
	reached  uint32 // at which port of the service, if it says so
	protocol string
	of       provided // which service it is one of
	off      bool     // it is to get no requests
	idle     bool     // it has the weight 0
}

func (i *instance) equal(other *instance) bool {
	return i == other || i != nil && other != nil && reflect.DeepEqual(i, other)
}

// describe takes from what an instance says of itself what the mesh acts on.
func (i *instance) describe(said map[string]string, s *settings) {
	i.Account = said[keyAccount]
	if n, err := strconv.ParseUint(said[keyPort], 10, 16); err == nil {
		i.reached = uint32(n)
	}
	region := cmp.Or(said[keyRegion], s.region)
	switch zone := said[keyZone]; {
	case strings.Contains(region+zone, "/"): // it would be another place
	case region != "" && zone != "":
		i.Locality = region + "/" + zone
	default:
		i.Locality = region
	}
}

// weigh takes a weight. An instance of weight 0 gets no requests while others can.
func (i *instance) weigh(said string) error {
	if said == "" {
		return nil
	}
	n, err := strconv.ParseUint(said, 10, 32)
	if err != nil || n > mostWeight {
		return fmt.Errorf("the weight %q is no number from 0 to %d", said, mostWeight)
	}
	i.Weight, i.idle = max(uint32(n), 1), n == 0
	return nil
}

// check refuses what would have the whole service refused.
func (i *instance) check() error {
	if i.Address == "" {
		return errors.New("it has no address")
	}
	if ip, err := netip.ParseAddr(i.Address); err == nil && (ip.Zone() != "" || ip.IsUnspecified()) || err != nil && !validHost(strings.ToLower(i.Address)) {
		return fmt.Errorf("the address %q is none that others can connect to", i.Address)
	}
	if i.port == 0 {
		return errors.New("it has no port")
	}
	return nil
}

// makeService makes a service of its instances. Protocols count if all agree: otherwise it is TCP.
func (s *settings) makeService(name, group, at string, drawn uint32, all []*instance) *service.Service {
	out := &service.Service{Name: name, Entry: s.entry(group), Namespace: s.namespace, Hosts: []string{at}}
	numbers := make([]uint32, len(all))
	protocol := all[0].protocol
	for n, i := range all {
		numbers[n] = cmp.Or(i.reached, s.port, i.port)
		if i.protocol != protocol {
			protocol = ""
		}
	}
	out.Ports = service.PortsOf(protocol, cmp.Or(s.port, drawn), numbers)
	out.Instances = make([]service.Instance, len(all))
	for n, i := range all {
		out.Instances[n] = i.Instance
		out.Instances[n].Ports = service.At(out.Ports, i.port)
		if i.off || i.idle {
			out.Instances[n].Health = service.Unhealthy
		}
	}
	return out
}

// entry is how people find a service in ZooKeeper.
func (s *settings) entry(group string) string {
	if group == "" {
		return s.root
	}
	return s.root + "/" + group
}
