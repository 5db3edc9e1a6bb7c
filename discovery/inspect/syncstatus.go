package inspect

import (
	"cmp"
	"slices"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	statusv3 "github.com/envoyproxy/go-control-plane/envoy/service/status/v3"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// syncStatuses says of each proxy how each of its types stands, as the client status service does.
func syncStatuses(seen []client) (all []*served.Resource, err error) {
	for _, c := range seen {
		body, err := anypb.New(c.syncStatus())
		if err != nil {
			return nil, grpcstatus.Errorf(codes.Internal, "show %s: %v", c.id(), err)
		}
		all = append(all, &served.Resource{Name: c.id(), Body: body})
	}
	return all, nil
}

func (c client) syncStatus() *statusv3.ClientConfig {
	out := &statusv3.ClientConfig{Node: &corev3.Node{Id: c.id(), Metadata: c.istioMetadata()}}
	for _, t := range c.stream.Types() {
		out.GenericXdsConfigs = append(out.GenericXdsConfigs, c.typeStatus(t))
	}
	slices.SortFunc(out.GetGenericXdsConfigs(), func(a, b *statusv3.ClientConfig_GenericXdsConfig) int {
		return cmp.Compare(a.GetTypeUrl(), b.GetTypeUrl())
	})
	return out
}

// istioMetadata is what istioctl shows of a node. What the node does not say is left out.
func (c client) istioMetadata() *structpb.Struct {
	fields := map[string]*structpb.Value{}
	for key, text := range map[string]string{"CLUSTER_ID": c.Proxy.Cluster, "NAMESPACE": c.Proxy.Namespace, "ISTIO_VERSION": c.istioVersion()} {
		if text != "" {
			fields[key] = structpb.NewStringValue(text)
		}
	}
	return &structpb.Struct{Fields: fields}
}

// istioVersion is what istioctl shows as the version of a proxy. A proxy that is of no Istio has that
// of its agent.
func (c client) istioVersion() string { return cmp.Or(c.Proxy.Version, c.Proxy.Agent) }

func (c client) typeStatus(t ads.TypeState) *statusv3.ClientConfig_GenericXdsConfig {
	out := &statusv3.ClientConfig_GenericXdsConfig{TypeUrl: t.TypeURL, ConfigStatus: c.configStatus(t), VersionInfo: t.Accepted.Revision}
	if t.Sent != (ads.Sent{}) {
		out.LastUpdated = timestamppb.New(t.Sent.At)
	}
	if out.GetConfigStatus() == statusv3.ConfigStatus_ERROR {
		out.ErrorState = &adminv3.UpdateFailureState{
			LastUpdateAttempt: timestamppb.New(t.Rejected.At), VersionInfo: t.Rejected.Revision, Details: reason(t.TypeURL, t.Rejected.Reason),
		}
	}
	return out
}

// configStatus is the status of the pages in istioctl's words. A proxy that came back with all that
// it needs has it, although this discovery has sent it nothing.
func (c client) configStatus(t ads.TypeState) statusv3.ConfigStatus {
	is := statusOf(t)
	switch {
	case is == nacked:
		return statusv3.ConfigStatus_ERROR
	case t.Sent == (ads.Sent{}) && t.Has.Len() == 0:
		return statusv3.ConfigStatus_NOT_SENT
	case is == stale, c.snapshot == nil:
		return statusv3.ConfigStatus_STALE
	default:
		return statusv3.ConfigStatus_SYNCED
	}
}
