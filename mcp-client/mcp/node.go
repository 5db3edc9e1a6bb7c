package mcp

import (
	"os"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// newNode names the client in the form that istiod insists on: type~address~id~domain. The namespace that an istiod compares
// with the caller's identity is what the domain begins with; the id ends with it too, as in Istio's own.
func newNode(name, namespace string) *corev3.Node {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	id, domain := name+"."+host, "cluster.local"
	if namespace != "" {
		id, domain = name+"-"+host+"."+namespace, namespace+".svc.cluster.local"
	}
	return &corev3.Node{
		Id:            "sidecar~127.0.0.1~" + id + "~" + domain,
		UserAgentName: "pgmesh-" + name,
		Metadata:      &structpb.Struct{Fields: map[string]*structpb.Value{"GENERATOR": structpb.NewStringValue("api")}},
	}
}
