package push_test

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
)

// answer is a response of either form.
type answer struct {
	typeURL, version, nonce string
	resources               map[string]held
	removed                 []string
}

// stream is one of the two forms of the protocol.
type stream interface {
	ask(typeURL, nonce string, failure *status.Status, names, added, dropped []string, versions map[string]string) error
	recv() (*answer, error)
}

// open opens a stream of the form that the proxy speaks.
func (p *envoy) open(ctx context.Context, conn *grpc.ClientConn) (stream, error) {
	client := discoveryv3.NewAggregatedDiscoveryServiceClient(conn)
	if p.incremental {
		s, err := client.DeltaAggregatedResources(ctx)
		return deltaStream{s, newest(p.Node)}, err
	}
	s, err := client.StreamAggregatedResources(ctx)
	return sotwStream{s, p.Node}, err
}

type deltaStream struct {
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient

	node *corev3.Node
}

func (s deltaStream) ask(typeURL, nonce string, failure *status.Status, _, added, dropped []string, versions map[string]string) error {
	return s.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: s.node, TypeUrl: typeURL, ResponseNonce: nonceOf(nonce, failure != nil || added == nil && dropped == nil), ErrorDetail: failure,
		ResourceNamesSubscribe: added, ResourceNamesUnsubscribe: dropped, InitialResourceVersions: versions,
	})
}

// nonceOf leaves the nonce out of requests that answer nothing.
func nonceOf(nonce string, answers bool) string {
	if answers {
		return nonce
	}
	return ""
}

func (s deltaStream) recv() (*answer, error) {
	m, err := s.Recv()
	if err != nil {
		return nil, err
	}
	a := &answer{typeURL: m.GetTypeUrl(), version: m.GetSystemVersionInfo(), nonce: m.GetNonce(), resources: map[string]held{}, removed: m.GetRemovedResources()}
	for _, r := range m.GetResources() {
		_, h := read(r.GetResource())
		h.version = r.GetVersion()
		a.resources[r.GetName()] = h
	}
	return a, nil
}

type sotwStream struct {
	discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient

	node *corev3.Node
}

func (s sotwStream) ask(typeURL, nonce string, failure *status.Status, names, _, _ []string, _ map[string]string) error {
	return s.Send(&discoveryv3.DiscoveryRequest{Node: s.node, TypeUrl: typeURL, ResponseNonce: nonce, ErrorDetail: failure, ResourceNames: names})
}

func (s sotwStream) recv() (*answer, error) {
	m, err := s.Recv()
	if err != nil {
		return nil, err
	}
	a := &answer{typeURL: m.GetTypeUrl(), version: m.GetVersionInfo(), nonce: m.GetNonce(), resources: map[string]held{}}
	for _, r := range m.GetResources() {
		name, h := read(r)
		a.resources[name] = h
	}
	return a, nil
}
