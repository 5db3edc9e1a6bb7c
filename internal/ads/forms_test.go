package ads_test

import (
	"context"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const nodeID = "sidecar~127.0.0.1~test.default~cluster.local"

func refusal(reason string) *rpcstatus.Status {
	if reason == "" {
		return nil
	}
	return &rpcstatus.Status{Code: int32(codes.InvalidArgument), Message: reason}
}

// content reads what a body says: "name=version".
func content(body *anypb.Any) (string, error) {
	m := &wrapperspb.StringValue{}
	err := body.UnmarshalTo(m)
	return m.GetValue(), err
}

type deltaForm struct {
	g discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesClient
}

func (s *server) delta() *client {
	return s.connect(func(ctx context.Context) (form, error) {
		g, err := discoveryv3.NewAggregatedDiscoveryServiceClient(s.conn).DeltaAggregatedResources(ctx)
		return deltaForm{g}, err
	})
}

func (f deltaForm) send(a ask) error {
	return f.g.Send(&discoveryv3.DeltaDiscoveryRequest{
		Node: &corev3.Node{Id: nodeID}, TypeUrl: a.typeURL, ResponseNonce: a.nonce, ErrorDetail: refusal(a.refusal),
		ResourceNamesSubscribe: a.subscribe, ResourceNamesUnsubscribe: a.unsubscribe, InitialResourceVersions: a.held,
	})
}

func (f deltaForm) recv() (*answer, error) {
	m, err := f.g.Recv()
	if err != nil {
		return nil, err
	}
	a := &answer{
		typeURL: m.GetTypeUrl(), revision: m.GetSystemVersionInfo(), nonce: m.GetNonce(),
		identifier: m.GetControlPlane().GetIdentifier(), removed: m.GetRemovedResources(),
	}
	for _, r := range m.GetResources() {
		if _, err := content(r.GetResource()); err != nil {
			return nil, err
		}
		a.resources = append(a.resources, r.GetName()+"="+r.GetVersion())
	}
	return a, nil
}

type sotwForm struct {
	g discoveryv3.AggregatedDiscoveryService_StreamAggregatedResourcesClient
}

func (s *server) sotw() *client {
	return s.connect(func(ctx context.Context) (form, error) {
		g, err := discoveryv3.NewAggregatedDiscoveryServiceClient(s.conn).StreamAggregatedResources(ctx)
		return sotwForm{g}, err
	})
}

func (f sotwForm) send(a ask) error {
	return f.g.Send(&discoveryv3.DiscoveryRequest{
		Node: &corev3.Node{Id: nodeID}, TypeUrl: a.typeURL, ResponseNonce: a.nonce, ErrorDetail: refusal(a.refusal),
		ResourceNames: a.names,
	})
}

func (f sotwForm) recv() (*answer, error) {
	m, err := f.g.Recv()
	if err != nil {
		return nil, err
	}
	a := &answer{
		typeURL: m.GetTypeUrl(), revision: m.GetVersionInfo(), nonce: m.GetNonce(),
		identifier: m.GetControlPlane().GetIdentifier(),
	}
	for _, body := range m.GetResources() {
		r, err := content(body)
		if err != nil {
			return nil, err
		}
		a.resources = append(a.resources, r)
	}
	return a, nil
}
