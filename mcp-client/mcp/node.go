package mcp

import (
	"os"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// newNode describes the client in the form that istiod demands: type~address~id~domain. Istiod
// compares the namespace at the beginning of the domain with the caller's identity. The id ends
// with the namespace, too, as that of Istio's own clients does.
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
