package mesh

import (
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	networking "istio.io/api/networking/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

// metadataPrefix begins the names of environment variables that set metadata of a proxy:
// ISTIO_META_IDLE_TIMEOUT sets IDLE_TIMEOUT.
const metadataPrefix = "ISTIO_META_"

// fromMachine is metadata that only the machine knows: who and where the proxy is, and what its agent
// can do.
var fromMachine = map[string]bool{
	"NAMESPACE": true, "LABELS": true, "STATIC_LABELS": true, "INSTANCE_IPS": true, "ISTIO_VERSION": true, "PROXY_CONFIG": true,
	"TLS_CLIENT_CERT_CHAIN": true, "TLS_CLIENT_KEY": true, "TLS_CLIENT_ROOT_CERT": true, "PGMESH_WASM_MODULES": true,
}

// proxyDefaults are the ProxyConfigs by namespace, the oldest first.
type proxyDefaults map[string][]proxyDefault

// proxyDefault is one of them; the zero value says nothing.
type proxyDefault struct {
	*networking.ProxyConfig

	from *kinds.Resource
}

func buildProxyDefaults(now configstore.Step, prev *Mesh) proxyDefaults {
	if prev.unchanged(now, kindProxyConfig) {
		return prev.defaults
	}
	out := proxyDefaults{}
	for r := range now.Of(kindProxyConfig) {
		out[r.Namespace] = append(out[r.Namespace], proxyDefault{specOf[*networking.ProxyConfig](r), r})
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
	for _, d := range m.proxyDefaults(p) {
		maps.Copy(given, d.GetEnvironmentVariables())
	}
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

// proxyDefaults lists the ProxyConfigs for a proxy, those that count less before those that count
// more.
func (m *Mesh) proxyDefaults(p *Proxy) (out []proxyDefault) {
	if root := m.Config.GetRootNamespace(); root != p.Namespace {
		out = append(out, m.defaults.forAll(root))
	}
	out = append(out, m.defaults.forAll(p.Namespace), m.defaults.forWorkload(p.Namespace, p.Labels))
	return slices.DeleteFunc(out, func(d proxyDefault) bool { return d.from == nil })
}

// encodeDefaults names ProxyConfigs.
func encodeDefaults(defaults []proxyDefault) string {
	var b strings.Builder
	for _, d := range defaults {
		b.WriteString("," + d.from.Namespace + "/" + d.from.Name)
	}
	return b.String()
}

// forAll is the oldest ProxyConfig of a namespace without a selector.
func (d proxyDefaults) forAll(namespace string) proxyDefault {
	for _, c := range d[namespace] {
		if c.GetSelector() == nil {
			return c
		}
	}
	return proxyDefault{}
}

// forWorkload is the oldest ProxyConfig of a namespace that selects a workload by its labels.
func (d proxyDefaults) forWorkload(namespace string, labels map[string]string) proxyDefault {
	for _, c := range d[namespace] {
		if selector := c.GetSelector().GetMatchLabels(); len(selector) > 0 && kinds.LabelsWithin(selector, labels) {
			return c
		}
	}
	return proxyDefault{}
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
