package cluster

import (
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	dynamicforwardproxyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/clusters/dynamic_forward_proxy/v3"
	upstreamhttpv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/upstreams/http/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// draft is a cluster with the messages that are packed into it last.
type draft struct {
	*clusterv3.Cluster

	http    *upstreamhttpv3.HttpProtocolOptions  // nil for none
	dynamic *dynamicforwardproxyv3.ClusterConfig // nil unless each request names its host
}

func (d *draft) passesThrough() bool {
	return d.GetType() == clusterv3.Cluster_ORIGINAL_DST && d.dynamic == nil
}

func (d *draft) isHTTP2() bool {
	return d.http.GetExplicitHttpConfig().GetHttp2ProtocolOptions() != nil
}

const httpOptionsKey = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"

// options returns the HTTP options, made at first use.
func (d *draft) options() *upstreamhttpv3.HttpProtocolOptions {
	if d.http == nil {
		d.http = &upstreamhttpv3.HttpProtocolOptions{}
	}
	return d.http
}

func (d *draft) commonOptions() *corev3.HttpProtocolOptions {
	o := d.options()
	if o.GetCommonHttpProtocolOptions() == nil {
		o.CommonHttpProtocolOptions = &corev3.HttpProtocolOptions{}
	}
	return o.GetCommonHttpProtocolOptions()
}

// finish packs what is left to pack. HTTP options must name a protocol: if nothing else asked for
// one, it is HTTP/1.1.
func (d *draft) finish() *clusterv3.Cluster {
	if d.dynamic != nil {
		d.packDynamic()
	}
	if d.http == nil {
		return d.Cluster
	}
	if d.http.UpstreamProtocolOptions == nil {
		d.http.UpstreamProtocolOptions = explicitly(&upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig{
			ProtocolConfig: &upstreamhttpv3.HttpProtocolOptions_ExplicitHttpConfig_HttpProtocolOptions{},
		})
	}
	d.TypedExtensionProtocolOptions = map[string]*anypb.Any{httpOptionsKey: message.Pack(d.http)}
	return d.Cluster
}
