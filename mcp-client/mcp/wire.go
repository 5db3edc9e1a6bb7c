package mcp

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"

	"github.com/pgmesh/pgmesh/kinds"
)

// request is what a client says, in the terms of no form of the protocol.
type request struct {
	node *corev3.Node
	// typeURL is what is asked for, or answered: a type URL, or in the legacy form a collection.
	typeURL, nonce string
	version        string            // of the response that is answered (state of the world)
	held           map[string]string // versions by name, with the first request (delta)
	failure        *status.Status
}

// answers tells whether this is an answer to a response, and not a first request.
func (r *request) answers() bool { return r.nonce != "" }

// response is what a server says.
type response struct {
	typeURL, nonce, version, server string
	// full responses name everything there is of the type.
	full      bool
	resources []item
	removed   []string

	free func() // what the resources are parts of; nil if that belongs to nobody
}

// item is one resource as it came, in bytes that are there until the response is released: its name and version may only be inside the
// envelope.
type item struct {
	name, version []byte
	body          kinds.Body
	envelope      bool // the body's value is the envelope, as it is where that travels by itself, and not in an Any
}

// release gives back what the response was read from.
func (r *response) release() {
	r.resources = nil
	if r.free != nil {
		r.free()
		r.free = nil
	}
}

// wire is one of the forms of the protocol.
type wire interface {
	send(*request) error
	recv() (*response, error)
	// names lists what a kind can be asked for by, the preferred name first; none if this form has no name for it.
	names(*kinds.Kind) []string
	protocol() Protocol
}

// xds is what both forms over xDS have in common.
type xds struct{}

func (xds) names(k *kinds.Kind) []string { return k.TypeURLs() }

type delta struct {
	xds

	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

func (*delta) protocol() Protocol { return Delta }

func (d *delta) send(r *request) error {
	return d.stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: r.node, TypeUrl: r.typeURL, ResponseNonce: r.nonce, InitialResourceVersions: r.held, ErrorDetail: r.failure,
	})
}

func (d *delta) recv() (*response, error) {
	m, err := deltaForm.receive(d.stream)
	if err != nil {
		return nil, err
	}
	return m.delta(), nil
}

type sotw struct {
	xds

	stream discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
}

func (*sotw) protocol() Protocol { return XDS }

func (s *sotw) send(r *request) error {
	return s.stream.Send(&discoveryv3.DiscoveryRequest{
		Node: r.node, TypeUrl: r.typeURL, ResponseNonce: r.nonce, VersionInfo: r.version, ErrorDetail: r.failure,
	})
}

func (s *sotw) recv() (*response, error) {
	m, err := sotwForm.receive(s.stream)
	if err != nil {
		return nil, err
	}
	return m.sotw(), nil
}
