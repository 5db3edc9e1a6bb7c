package access

import (
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	istio "istio.io/api/security/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/caller"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// elsewhere is the rule for RPCs of others, whose servers decide themselves who may call. It says
// where they do.
type elsewhere string

func (elsewhere) allows(*caller.Caller) error { return nil }

const (
	// mcp-server shows a client what its scopes let it read, and discovery admits machines.
	byView elsewhere = "mcp-server/readers, discovery/identity/admit"
	// A machine proves who it is within the request.
	byCredential elsewhere = "discovery/identity/issue"
)

// foreign are the rules of RPCs that others have defined.
var foreign = map[string]rule{
	discoveryv3.AggregatedDiscoveryService_StreamAggregatedResources_FullMethodName:    byView,
	discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName:     byView,
	legacyv1.ResourceSource_EstablishResourceStream_FullMethodName:                     byView,
	legacyv1.AggregatedMeshConfigService_StreamAggregatedResources_FullMethodName:      byView,
	legacyv1.AggregatedMeshConfigService_IncrementalAggregatedResources_FullMethodName: byView,
	istio.IstioCertificateService_CreateCertificate_FullMethodName:                     byCredential,
}
