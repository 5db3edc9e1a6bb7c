package proxy

import (
	"fmt"
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
)

// response is what a proxy must know of a response to answer it.
type response struct {
	kind           Type
	known          bool // the proxy subscribes to the type
	version, nonce string
	resources      []resource
	removed        []name
}

// resource is a resource in a response. Its body is valid until the next response is read.
type resource struct {
	name    name
	version []byte
	body    []byte
}

func (r *response) offer() Offer {
	o := Offer{Type: r.kind}
	for _, resource := range r.resources {
		o.Names = append(o.Names, resource.name.Value())
	}
	for _, n := range r.removed {
		o.Removed = append(o.Removed, n.Value())
	}
	return o
}

// form is one of the two forms of the protocol.
type form interface {
	method() string
	// parse reads a response, reusing into.
	parse(data []byte, into *response) error
	// ask returns a request that adds names to a subscription and drops names from it.
	ask(s *subscription, added, dropped []name) []byte
	// again returns the first request of a stream, of a proxy that has these versions from an earlier
	// one.
	again(s *subscription, versions map[name]string) []byte
	// acknowledge returns the ACK of the last response.
	acknowledge(s *subscription) []byte
	// refuse returns the NACK of the last response.
	refuse(s *subscription, reason string) []byte
	// node adds the node to a request. Only the first request of a stream has it.
	node(request, node []byte) []byte
	// whole reports whether a response has all existing clusters or listeners.
	whole() bool
}

func (r *response) clear() {
	*r = response{resources: r.resources[:0], removed: r.removed[:0]}
}

// incremental is the form whose responses have only changes.
type incremental struct{}

func (incremental) method() string {
	return discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName
}

func (incremental) whole() bool { return false }

func (incremental) parse(data []byte, into *response) error {
	into.clear()
	return walk(data, func(f field) error {
		switch f.id {
		case 2:
			r, err := incrementalResource(f.bytes)
			into.resources = append(into.resources, r)
			return err
		case 4:
			into.kind, into.known = typeOf(f.bytes)
		case 5:
			into.nonce = string(f.bytes)
		case 6:
			into.removed = append(into.removed, nameOf(f.bytes))
		}
		return nil
	})
}

func incrementalResource(data []byte) (r resource, err error) {
	err = walk(data, func(f field) (err error) {
		switch f.id {
		case 1:
			r.version = f.bytes
		case 2:
			r.body, err = find(f.bytes, 2) // the value of the Any
		case 3:
			r.name = nameOf(f.bytes)
		}
		return err
	})
	return r, err
}

func (incremental) ask(s *subscription, added, dropped []name) []byte {
	request := appendText(nil, 2, s.kind.URL())
	for _, n := range added {
		request = appendText(request, 3, n.Value())
	}
	for _, n := range dropped {
		request = appendText(request, 4, n.Value())
	}
	return request
}

func (f incremental) again(s *subscription, versions map[name]string) []byte {
	request := f.ask(s, slices.Collect(maps.Keys(s.wanted)), nil)
	for n, version := range versions {
		request = appendBytes(request, 5, appendText(appendText(nil, 1, n.Value()), 2, version))
	}
	return request
}

func (incremental) acknowledge(s *subscription) []byte {
	return appendText(appendText(nil, 2, s.kind.URL()), 6, s.nonce)
}

func (f incremental) refuse(s *subscription, reason string) []byte {
	return appendBytes(f.acknowledge(s), 7, refusal(reason))
}

// refusal is a google.rpc.Status.
func refusal(reason string) []byte {
	const invalidArgument = 3
	return appendText(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), invalidArgument), 2, reason)
}

func (incremental) node(request, node []byte) []byte { return appendBytes(request, 1, node) }

// stateOfTheWorld is the form in which each response has all resources, and each request all names.
type stateOfTheWorld struct{}

func (stateOfTheWorld) method() string {
	return discoveryv3.AggregatedDiscoveryService_StreamAggregatedResources_FullMethodName
}

func (stateOfTheWorld) whole() bool { return true }

func (stateOfTheWorld) parse(data []byte, into *response) error {
	into.clear()
	return walk(data, func(f field) error {
		switch f.id {
		case 1:
			into.version = string(f.bytes)
		case 2:
			body, err := find(f.bytes, 2)
			if err != nil {
				return err
			}
			text, err := find(body, 1) // each of these types has its name in the first field
			if err != nil {
				return fmt.Errorf("read the name of a resource: %w", err)
			}
			into.resources = append(into.resources, resource{name: nameOf(text), body: body})
		case 4:
			into.kind, into.known = typeOf(f.bytes)
		case 5:
			into.nonce = string(f.bytes)
		}
		return nil
	})
}

func (f stateOfTheWorld) ask(s *subscription, _, _ []name) []byte { return f.acknowledge(s) }

func (f stateOfTheWorld) again(s *subscription, _ map[name]string) []byte { return f.acknowledge(s) }

func (f stateOfTheWorld) refuse(s *subscription, reason string) []byte {
	return appendBytes(f.acknowledge(s), 6, refusal(reason))
}

func (stateOfTheWorld) acknowledge(s *subscription) []byte {
	request := appendText(nil, 1, s.version)
	for n := range s.wanted {
		request = appendText(request, 3, n.Value())
	}
	return appendText(appendText(request, 4, s.kind.URL()), 5, s.nonce)
}

func (stateOfTheWorld) node(request, node []byte) []byte { return appendBytes(request, 2, node) }
