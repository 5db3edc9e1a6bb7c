package route

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonfaultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/common/fault/v3"
	faultv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/fault/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	networking "istio.io/api/networking/v1alpha3"
)

// fault delays or aborts requests on purpose. It is nil if nothing is asked for.
func fault(in *networking.HTTPFaultInjection) *faultv3.HTTPFault {
	out := &faultv3.HTTPFault{Delay: delay(in.GetDelay()), Abort: abort(in.GetAbort())}
	if out.GetDelay() == nil && out.GetAbort() == nil {
		return nil
	}
	return out
}

func delay(in *networking.HTTPFaultInjection_Delay) *commonfaultv3.FaultDelay {
	fixed, ok := in.GetHttpDelayType().(*networking.HTTPFaultInjection_Delay_FixedDelay)
	if !ok {
		return nil
	}
	percent := wholePercent(uint32(in.GetPercent())) //nolint:staticcheck // people still write it
	if in.GetPercentage() != nil {
		percent = fraction(in.GetPercentage())
	}
	return &commonfaultv3.FaultDelay{
		FaultDelaySecifier: &commonfaultv3.FaultDelay_FixedDelay{FixedDelay: fixed.FixedDelay}, Percentage: percent,
	}
}

func abort(in *networking.HTTPFaultInjection_Abort) *faultv3.FaultAbort {
	out := &faultv3.FaultAbort{}
	switch e := in.GetErrorType().(type) {
	case *networking.HTTPFaultInjection_Abort_HttpStatus:
		out.ErrorType = &faultv3.FaultAbort_HttpStatus{HttpStatus: uint32(e.HttpStatus)}
	case *networking.HTTPFaultInjection_Abort_GrpcStatus:
		out.ErrorType = &faultv3.FaultAbort_GrpcStatus{GrpcStatus: grpcStatus(e.GrpcStatus)}
	default:
		return nil
	}
	if in.GetPercentage() != nil {
		out.Percentage = fraction(in.GetPercentage())
	}
	return out
}

// grpcStatus reads a status by its name, such as UNAVAILABLE. An unknown name is UNKNOWN.
func grpcStatus(name string) uint32 {
	var code codes.Code
	if code.UnmarshalJSON([]byte(`"`+name+`"`)) != nil {
		code = codes.Unknown
	}
	return uint32(code)
}

// fraction keeps four decimals of a percentage.
func fraction(p *networking.Percent) *typev3.FractionalPercent {
	return &typev3.FractionalPercent{Numerator: uint32(p.GetValue() * 10000), Denominator: typev3.FractionalPercent_MILLION}
}

func wholePercent(p uint32) *typev3.FractionalPercent {
	return &typev3.FractionalPercent{Numerator: p, Denominator: typev3.FractionalPercent_HUNDRED}
}

func runtimeFraction(p *typev3.FractionalPercent) *corev3.RuntimeFractionalPercent {
	return &corev3.RuntimeFractionalPercent{DefaultValue: p}
}
