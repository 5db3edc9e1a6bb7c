package mcp

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"

	"github.com/pgmesh/pgmesh/kinds"
)

// request is a client's message in a form that all protocols share.
type request struct {
	node *corev3.Node
	// typeURL is what is subscribed to or answered: a type URL, or a collection in the legacy form.
	typeURL, nonce string
	version        string            // of the answered response (state of the world)
	versions       map[string]string // versions by name, in the first request (delta)
	failure        *status.Status
}

// answers reports whether this answers a response, as opposed to a first request.
func (r *request) answers() bool { return r.nonce != "" }

// response is a server's message in a form that all protocols share.
type response struct {
	typeURL, nonce, version, server string
	// full responses list all resources of the type.
	full      bool
	resources []item
	removed   []string

	free func() // releases the buffer that the resources alias; nil if it needs no release
}

// item is one resource of a response. It aliases the response's buffer, so it is valid until the
// response is released. Its name and version may only be in the envelope.
type item struct {
	name, version []byte
	body          kinds.Body
	envelope      bool // the body's value is the envelope itself, not an Any
}

// release frees the buffer of the response.
func (r *response) release() {
	r.resources = nil
	if r.free != nil {
		r.free()
		r.free = nil
	}
}

// wire is a stream in one of the forms of the protocol.
type wire interface {
	send(*request) error
	recv() (*response, error)
	// names lists the names of a kind, the preferred one first; none if this form has no name for
	// it.
	names(*kinds.Kind) []string
	protocol() Protocol
}

// xds is common to both forms over xDS.
type xds struct{}

func (xds) names(k *kinds.Kind) []string { return k.TypeURLs() }

type delta struct {
	xds

	stream discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

func (*delta) protocol() Protocol { return Delta }

func (d *delta) send(r *request) error {
	return d.stream.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: r.node, TypeUrl: r.typeURL, ResponseNonce: r.nonce, InitialResourceVersions: r.versions, ErrorDetail: r.failure,
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
