package route

import (
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
)

// picked adds the setting by which the picker of a pool is asked about requests to a destination, if that
// is a pool.
func (c Context) picked(settings map[string]*anypb.Any, to *networking.Destination) map[string]*anypb.Any {
	s := c.Service(to.GetHost())
	if s == nil || s.Pool == nil {
		return settings
	}
	if settings == nil {
		settings = map[string]*anypb.Any{}
	}
	settings[PickerFilter] = message.Pack(&extprocv3.ExtProcPerRoute{
		Override: &extprocv3.ExtProcPerRoute_Overrides{Overrides: asking(s.Pool.Picker)},
	})
	return settings
}

// asking has a picker see all of each request and of its answer, as it comes, as the protocol says. A
// picker that is not there is asked in vain.
func asking(picker gatewayapi.Picker) *extprocv3.ExtProcOverrides {
	choices := &extprocv3.MetadataOptions_MetadataNamespaces{Untyped: []string{naming.ChoiceMetadata}}
	return &extprocv3.ExtProcOverrides{
		GrpcService:      message.GRPC(naming.Cluster(picker.Port, "", picker.Host), picker.Host),
		FailureModeAllow: wrapperspb.Bool(picker.FailOpen),
		MetadataOptions:  &extprocv3.MetadataOptions{ForwardingNamespaces: choices, ReceivingNamespaces: choices},
		ProcessingMode: &extprocv3.ProcessingMode{
			RequestHeaderMode: extprocv3.ProcessingMode_SEND, RequestBodyMode: extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED, RequestTrailerMode: extprocv3.ProcessingMode_SEND,
			ResponseHeaderMode: extprocv3.ProcessingMode_SEND, ResponseBodyMode: extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED, ResponseTrailerMode: extprocv3.ProcessingMode_SEND,
		},
	}
}
