package bootstrap

import (
	"fmt"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// identityKey tells discovery that the agent serves the machine's certificate and the trust bundle.
const identityKey = "PGMESH_IDENTITY"

// modulesKey tells discovery that the agent, through which each Envoy of this bootstrap asks, fetches
// the modules of Wasm plugins, and takes out of them what they are pulled with.
const modulesKey = "PGMESH_WASM_MODULES"

// node returns the node of Envoy's xDS streams, in the shape of Istio's proxies.
func node(o Options) (*corev3.Node, error) {
	fields := map[string]any{
		"NAME":              o.ID,
		"NAMESPACE":         o.Namespace,
		"SERVICE_ACCOUNT":   o.ServiceAccount,
		"INTERCEPTION_MODE": string(o.Interception),
		"INSTANCE_IPS":      strings.Join(append([]string{o.IP}, o.OtherIPs...), ","),
		"LABELS":            values(o.Labels),
		modulesKey:          "agent",
	}
	if o.Identity {
		fields[identityKey] = "agent"
	}
	if o.Resolver != "" {
		fields["DNS_CAPTURE"], fields["PGMESH_DNS_RESOLVER"] = "true", o.Resolver
	}
	if o.Network != "" {
		fields["NETWORK"] = o.Network
	}
	metadata, err := structpb.NewStruct(fields)
	if err != nil {
		return nil, fmt.Errorf("labels: %w", err)
	}
	return &corev3.Node{
		Id:       o.NodeID(),
		Cluster:  serviceCluster(o),
		Metadata: metadata,
		Locality: locality(o.Locality),
	}, nil
}

// NodeID is how the proxy is called in xDS.
func (o *Options) NodeID() string {
	return fmt.Sprintf("%s~%s~%s~%s", o.Role.nodeType(), o.IP, o.ID, o.Domain)
}

// locality parses region/zone/subzone; "" gives nil.
func locality(text string) *corev3.Locality {
	if text == "" {
		return nil
	}
	parts := append(strings.SplitN(text, "/", 3), "", "")
	return &corev3.Locality{Region: parts[0], Zone: parts[1], SubZone: parts[2]}
}

func values(labels map[string]string) map[string]any {
	m := make(map[string]any, len(labels))
	for k, v := range labels {
		m[k] = v
	}
	return m
}

// serviceCluster groups the proxies of an application in statistics and traces.
func serviceCluster(o Options) string {
	if o.Tuning.ServiceCluster != "" {
		return o.Tuning.ServiceCluster
	}
	if app := o.Labels["app"]; app != "" {
		return app + "." + o.Namespace
	}
	return o.ID
}
