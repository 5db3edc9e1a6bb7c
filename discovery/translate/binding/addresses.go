package binding

import (
	"strings"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Address is one address of a TCP service: what to bind to and, for a range, which destinations it
// is for.
type Address struct {
	Binds, Ranges []string
	// Workload tells that the address is that of a single workload: it says what is wanted.
	Workload bool
	// Shared tells that all services are listened for there: the address says nothing.
	Shared bool
}

// Addresses lists where a TCP service is listened for. Without redirection all services share
// loopback. Allocated addresses share a listener, and addresses that people gave have one each.
func Addresses(v view.View, o Port) []Address {
	if len(o.Binds) > 0 {
		return []Address{{Binds: o.Binds, Shared: true}}
	}
	if o.Service.ByWorkload(o.Port) {
		return workloadAddresses(v, o)
	}
	addresses := o.Service.AddressesFor(v.Proxy)
	if len(o.Service.Allocated) > 0 && addresses[0] != mesh.Unspecified {
		return []Address{{Binds: addresses}}
	}
	out := make([]Address, len(addresses))
	for i, a := range addresses {
		out[i] = addressAt(v, a)
	}
	return out
}

func addressAt(v view.View, address string) Address {
	switch {
	case strings.Contains(address, "/"):
		return Address{Binds: v.Wildcards(), Ranges: []string{address}}
	case address == mesh.Unspecified:
		return Address{Binds: v.Wildcards()}
	default:
		return Address{Binds: []string{address}}
	}
}

// workloadAddresses are those at which clients of a service connect to its workloads themselves,
// without the proxy's own. They share a listener if its chains can tell them apart. They cannot if
// the protocol is detected: Envoy looks at addresses before it looks at protocols.
func workloadAddresses(v view.View, o Port) []Address {
	var out []Address
	for _, e := range o.Service.OnPort(o.Port.Number) {
		switch {
		case !mesh.IsAddress(e.Address) || e.Address == v.Proxy.Addresses[0]:
		case o.Port.Protocol.IsSniffed():
			out = append(out, Address{Binds: []string{e.Address}, Workload: true})
		default:
			out = append(out, Address{Binds: v.Wildcards(), Ranges: []string{e.Address}, Workload: true})
		}
	}
	return out
}
