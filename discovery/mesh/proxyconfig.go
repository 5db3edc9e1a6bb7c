package mesh

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// parseProxyConfig reads the configuration that an agent was started with. It keeps only what
// translation uses: nothing else may tell proxies apart. It ignores fields of newer agents.
func parseProxyConfig(metadata *structpb.Value) (*meshconfig.ProxyConfig, error) {
	if metadata.GetStructValue() == nil {
		return nil, nil //nolint:nilnil // a proxy without a configuration of its own uses the mesh's
	}
	text, err := metadata.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var config meshconfig.ProxyConfig
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, &config); err != nil {
		return nil, fmt.Errorf("PROXY_CONFIG: %w", err)
	}
	return &meshconfig.ProxyConfig{
		GatewayTopology: config.GetGatewayTopology(), ProxyHeaders: config.GetProxyHeaders(), ConnectionSettings: config.GetConnectionSettings(),
		Tracing: config.GetTracing(),
	}, nil
}

// encodeProxyConfig writes a configuration in a canonical form. Nil and empty differ.
func encodeProxyConfig(config *meshconfig.ProxyConfig) string {
	if config == nil {
		return ""
	}
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(config)
	if err != nil {
		panic("mesh: marshal a ProxyConfig: " + err.Error()) // only invalid UTF-8 fails, and no decoder lets that in
	}
	return "{" + string(bytes) + "}"
}
