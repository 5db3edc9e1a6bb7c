package mesh

import (
	"maps"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
)

// metadataPrefix begins the names of environment variables that set metadata of a proxy:
// ISTIO_META_IDLE_TIMEOUT sets IDLE_TIMEOUT.
const metadataPrefix = "ISTIO_META_"

// fromMachine is metadata that only the machine knows: who and where the proxy is.
var fromMachine = map[string]bool{
	"NAMESPACE": true, "LABELS": true, "STATIC_LABELS": true, "INSTANCE_IPS": true, "ISTIO_VERSION": true, "PROXY_CONFIG": true,
	"TLS_CLIENT_CERT_CHAIN": true, "TLS_CLIENT_KEY": true, "TLS_CLIENT_ROOT_CERT": true,
}

// proxyDefaults are the ProxyConfigs by namespace, the oldest first.
type proxyDefaults map[string][]*networking.ProxyConfig

func buildProxyDefaults(now configstore.Step, prev *Mesh) proxyDefaults {
	if prev.unchanged(now, kindProxyConfig) {
		return prev.defaults
	}
	out := proxyDefaults{}
	for r := range now.Of(kindProxyConfig) {
		out[r.Namespace] = append(out[r.Namespace], specOf[*networking.ProxyConfig](r))
	}
	return out
}

// Configured returns a proxy with the metadata that the MeshConfig and ProxyConfigs give to proxies
// that do not set it themselves: first the MeshConfig's, then those of the root namespace, then of
// its own namespace, then one that selects it. What cannot be read of it is ignored.
func (m *Mesh) Configured(p *Proxy) *Proxy {
	given := maps.Clone(m.Config.GetDefaultConfig().GetProxyMetadata())
	if given == nil {
		given = map[string]string{}
	}
	if root := m.Config.GetRootNamespace(); root != p.Namespace {
		maps.Copy(given, m.defaults.forAll(root).GetEnvironmentVariables())
	}
	maps.Copy(given, m.defaults.forAll(p.Namespace).GetEnvironmentVariables())
	maps.Copy(given, m.defaults.forWorkload(p.Namespace, p.Labels).GetEnvironmentVariables())
	node := withMetadata(p.node, given)
	if node == p.node {
		return p
	}
	configured, err := ParseProxy(node)
	if err != nil {
		return p
	}
	configured.node = p.node
	return configured
}

// forAll is the oldest ProxyConfig of a namespace without a selector; nil if there is none.
func (d proxyDefaults) forAll(namespace string) *networking.ProxyConfig {
	for _, c := range d[namespace] {
		if c.GetSelector() == nil {
			return c
		}
	}
	return nil
}

// forWorkload is the oldest ProxyConfig of a namespace that selects a workload by its labels; nil
// if there is none.
func (d proxyDefaults) forWorkload(namespace string, labels map[string]string) *networking.ProxyConfig {
	for _, c := range d[namespace] {
		if selector := c.GetSelector().GetMatchLabels(); len(selector) > 0 && LabelsWithin(selector, labels) {
			return c
		}
	}
	return nil
}

// withMetadata returns the node itself if there is nothing to add.
func withMetadata(node *corev3.Node, variables map[string]string) *corev3.Node {
	out := node
	for name, value := range variables {
		key, ok := strings.CutPrefix(name, metadataPrefix)
		if !ok || fromMachine[key] || node.GetMetadata().GetFields()[key] != nil {
			continue
		}
		if out == node {
			out = proto.CloneOf(node)
			if out.GetMetadata().GetFields() == nil {
				out.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{}}
			}
		}
		out.Metadata.Fields[key] = structpb.NewStringValue(value)
	}
	return out
}
