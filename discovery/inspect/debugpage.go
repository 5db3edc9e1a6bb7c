package inspect

import (
	"encoding/json"
	"net/url"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// debugPage is what istioctl's internal-debug asks for: a page of JSON by its name.
func debugPage(names []string, seen []client) ([]*served.Resource, error) {
	if len(names) != 1 {
		return nil, grpcstatus.Errorf(codes.InvalidArgument, "name one debug page, and not %d: there are list and syncz", len(names))
	}
	asked, err := url.Parse(names[0])
	if err != nil {
		return nil, grpcstatus.Errorf(codes.InvalidArgument, "%.100q is no name of a debug page: %v", names[0], err)
	}
	var page any
	switch asked.Path {
	case "list":
		page = []string{"/debug/list", "/debug/syncz"}
	case "syncz":
		page = syncz(within(asked.Query().Get("namespace"), seen))
	case "config_distribution":
		return nil, errNoDistribution
	default:
		return nil, grpcstatus.Errorf(codes.NotFound, "discovery has no debug page %.100q for istioctl: there are list and syncz; its own pages are at --http, below /debug", asked.Path)
	}
	text, err := json.Marshal(page)
	if err != nil {
		return nil, grpcstatus.Errorf(codes.Internal, "write %s: %v", asked.Path, err)
	}
	return []*served.Resource{{Name: names[0], Body: &anypb.Any{TypeUrl: debugType, Value: text}}}, nil
}

// syncedProxy is a proxy in the page syncz, whose fields are Istio's. Where Istio has nonces, there
// are revisions.
type syncedProxy struct {
	Cluster      string `json:"cluster_id,omitempty"`
	Proxy        string `json:"proxy,omitempty"`
	Role         string `json:"proxy_type,omitempty"`
	IstioVersion string `json:"istio_version,omitempty"`

	ClusterSent    string `json:"cluster_sent,omitempty"`
	ClusterAcked   string `json:"cluster_acked,omitempty"`
	ListenerSent   string `json:"listener_sent,omitempty"`
	ListenerAcked  string `json:"listener_acked,omitempty"`
	RouteSent      string `json:"route_sent,omitempty"`
	RouteAcked     string `json:"route_acked,omitempty"`
	EndpointSent   string `json:"endpoint_sent,omitempty"`
	EndpointAcked  string `json:"endpoint_acked,omitempty"`
	ExtensionSent  string `json:"extensionconfig_sent,omitempty"`
	ExtensionAcked string `json:"extensionconfig_acked,omitempty"`

	Resources map[string]syncedType `json:"resources,omitempty"`
}

type syncedType struct {
	Sent      string     `json:"sent,omitempty"`
	Acked     string     `json:"acked,omitempty"`
	SentTime  *time.Time `json:"sentTime,omitempty"`
	LastError string     `json:"lastError,omitempty"`
}

func syncz(seen []client) []syncedProxy {
	list := make([]syncedProxy, 0, len(seen))
	for _, c := range seen {
		list = append(list, c.syncz())
	}
	return list
}

func (c client) syncz() syncedProxy {
	all := map[string]syncedType{}
	for _, t := range c.stream.Types() {
		all[t.TypeURL] = showSynced(t)
	}
	clusters, listeners, routes, endpoints, extensions := all[push.ClusterType], all[push.ListenerType], all[push.RouteType], all[push.EndpointType], all[push.ExtensionType]
	return syncedProxy{
		Cluster: c.Proxy.Cluster, Proxy: c.id(), Role: string(c.Proxy.Type), IstioVersion: c.istioVersion(),
		ClusterSent: clusters.Sent, ClusterAcked: clusters.Acked, ListenerSent: listeners.Sent, ListenerAcked: listeners.Acked,
		RouteSent: routes.Sent, RouteAcked: routes.Acked, EndpointSent: endpoints.Sent, EndpointAcked: endpoints.Acked,
		ExtensionSent: extensions.Sent, ExtensionAcked: extensions.Acked, Resources: all,
	}
}

// showSynced has an error only while the proxy refuses something.
func showSynced(t ads.TypeState) syncedType {
	shown := syncedType{Sent: t.Sent.Revision, Acked: t.Accepted.Revision, SentTime: known(t.Sent.At)}
	if statusOf(t) == nacked {
		shown.LastError = reason(t.TypeURL, t.Rejected.Reason)
	}
	return shown
}
