package world

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
)

// Who describes the proxies.
type Who struct {
	World        *World
	Workloads    bool // each is an endpoint of a service
	Interception string
	Metadata     map[string]string
}

// Namespace returns the namespace of a proxy.
func (w Who) Namespace(proxy int) int { return proxy % w.World.Namespaces }

// Node returns the node of a proxy: that of an Envoy started by mesh-agent.
func (w Who) Node(proxy int) (*corev3.Node, error) {
	namespace := NamespaceName(w.Namespace(proxy))
	o := bootstrap.Options{
		Socket: "/nowhere", XDS: bootstrap.Delta, Role: bootstrap.Sidecar, Admin: "127.0.0.1:15000",
		ID: fmt.Sprintf("machine-%d.%s", proxy, namespace), Namespace: namespace, Domain: namespace + ".mesh.test",
		Interception: bootstrap.Interception(w.Interception), IP: fmt.Sprintf("172.16.%d.%d", proxy>>8, proxy&255),
	}
	if service, endpoint, is := w.Serves(proxy); is {
		o.IP, o.Labels = Address(service, endpoint), map[string]string{"app": ServiceName(service)}
	}
	b, err := bootstrap.New(o)
	if err != nil {
		return nil, err
	}
	for name, value := range w.Metadata {
		b.Node.Metadata.Fields[name] = structpb.NewStringValue(value)
	}
	return b.GetNode(), nil
}

// Serves returns the service of which a proxy is an endpoint, and which endpoint it is.
func (w Who) Serves(proxy int) (service, endpoint int, is bool) {
	home := w.World.homes[w.Namespace(proxy)]
	turn := proxy / w.World.Namespaces
	if !w.Workloads || turn >= len(home)*w.World.Endpoints {
		return 0, 0, false
	}
	return home[turn%len(home)], turn / len(home), true
}
