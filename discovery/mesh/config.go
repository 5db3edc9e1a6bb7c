package mesh

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
)

// DefaultConfig is the mesh configuration that holds where nothing is set. The values are Istio's.
func DefaultConfig() *meshconfig.MeshConfig {
	return &meshconfig.MeshConfig{
		RootNamespace:                  "istio-system",
		TrustDomain:                    "cluster.local",
		ProxyListenPort:                15001,
		ProxyInboundListenPort:         15006,
		ConnectTimeout:                 durationpb.New(10 * time.Second),
		DnsRefreshRate:                 durationpb.New(60 * time.Second),
		ProtocolDetectionTimeout:       durationpb.New(0),
		OutboundTrafficPolicy:          &meshconfig.MeshConfig_OutboundTrafficPolicy{Mode: meshconfig.MeshConfig_OutboundTrafficPolicy_ALLOW_ANY},
		InboundTrafficPolicy:           &meshconfig.MeshConfig_InboundTrafficPolicy{Mode: meshconfig.MeshConfig_InboundTrafficPolicy_PASSTHROUGH},
		LocalityLbSetting:              &networking.LocalityLoadBalancerSetting{Enabled: wrapperspb.Bool(true)},
		DefaultServiceExportTo:         []string{exportPublic},
		DefaultVirtualServiceExportTo:  []string{exportPublic},
		DefaultDestinationRuleExportTo: []string{exportPublic},
		EnableTracing:                  true,
		EnableAutoMtls:                 wrapperspb.Bool(true),
		DefaultConfig:                  &meshconfig.ProxyConfig{},
	}
}

// buildConfig sets what the MeshConfig resource says over the defaults.
func buildConfig(now configstore.Step, prev *Mesh) *meshconfig.MeshConfig {
	if prev.Config != nil && prev.unchanged(now, kindMeshConfig) {
		return prev.Config
	}
	config := DefaultConfig()
	if r := ofMesh(now.Snapshot, kindMeshConfig); r != nil {
		overlay(config, specOf[*meshconfig.MeshConfig](r))
	}
	return config
}

// overlay replaces defaults, whole, by what a MeshConfig sets. Merged with them, a list would be
// longer than it was written, and a false, a zero or REGISTRY_ONLY would change nothing. Only the
// defaults of proxies are completed field by field, as in Istio.
func overlay(config, set *meshconfig.MeshConfig) {
	to := config.ProtoReflect()
	set.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if f.Name() != "default_config" {
			to.Clear(f)
		}
		return true
	})
	proto.Merge(config, set)
}
