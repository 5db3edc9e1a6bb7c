package main

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
)

// who describes the proxies.
type who struct {
	world        *world
	workloads    bool // each is an endpoint of a service
	interception string
	metadata     map[string]string
}

// namespace returns the namespace of a proxy.
func (w who) namespace(proxy int) int { return proxy % w.world.Namespaces }

// node returns the node of a proxy: that of an Envoy started by mesh-agent.
func (w who) node(proxy int) (*corev3.Node, error) {
	namespace := namespaceName(w.namespace(proxy))
	o := bootstrap.Options{
		Socket: "/nowhere", XDS: bootstrap.Delta, Role: bootstrap.Sidecar, Admin: "127.0.0.1:15000",
		ID: fmt.Sprintf("machine-%d.%s", proxy, namespace), Namespace: namespace, Domain: namespace + ".mesh.test",
		Interception: bootstrap.Interception(w.interception), IP: fmt.Sprintf("172.16.%d.%d", proxy>>8, proxy&255),
	}
	if service, endpoint, is := w.serves(proxy); is {
		o.IP, o.Labels = address(service, endpoint), map[string]string{"app": serviceName(service)}
	}
	b, err := bootstrap.New(o)
	if err != nil {
		return nil, err
	}
	for name, value := range w.metadata {
		b.Node.Metadata.Fields[name] = structpb.NewStringValue(value)
	}
	return b.GetNode(), nil
}

// serves returns the service of which a proxy is an endpoint, and which endpoint it is.
func (w who) serves(proxy int) (service, endpoint int, is bool) {
	home := w.world.homes[w.namespace(proxy)]
	turn := proxy / w.world.Namespaces
	if !w.workloads || turn >= len(home)*w.world.Endpoints {
		return 0, 0, false
	}
	return home[turn%len(home)], turn / len(home), true
}
