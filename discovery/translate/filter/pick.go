package filter

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	earlyv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/early_header_mutation/header_mutation/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
)

// pickerFilter asks the picker that a route names, and is off for all others. What a picker says changes
// neither the route nor whom the request is for: it chooses an endpoint of the pool, and nothing else.
var pickerFilter = func() *hcmv3.HttpFilter {
	f := message.HTTPFilter(route.PickerFilter, &extprocv3.ExternalProcessor{
		GrpcService:      message.GRPC(naming.BlackHoleCluster, ""), // Envoy wants one
		RouteCacheAction: extprocv3.ExternalProcessor_RETAIN,
		StatusOnError:    &typev3.HttpStatus{Code: typev3.StatusCode_ServiceUnavailable},
	})
	f.Disabled = true
	return f
}()

// noOwnChoice takes the header away in which a picker says what it has chosen: clients do not choose.
var noOwnChoice = &corev3.TypedExtensionConfig{
	Name: "envoy.http.early_header_mutation.header_mutation",
	TypedConfig: message.Pack(&earlyv3.HeaderMutation{Mutations: []*mutationv3.HeaderMutation{{
		Action: &mutationv3.HeaderMutation_Remove{Remove: naming.ChosenEndpoint},
	}}}),
}
