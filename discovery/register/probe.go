package register

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// probeOf is the probe of a WorkloadGroup in the form for agents; nil for none. What the group does
// not set stays unset: the agent knows the defaults.
func probeOf(p *networking.ReadinessProbe) *machinev1.Probe {
	out := &machinev1.Probe{
		InitialDelay: seconds(p.GetInitialDelaySeconds()), Timeout: seconds(p.GetTimeoutSeconds()), Period: seconds(p.GetPeriodSeconds()),
		SuccessThreshold: uint32(max(p.GetSuccessThreshold(), 0)), FailureThreshold: uint32(max(p.GetFailureThreshold(), 0)),
	}
	switch how := p.GetHealthCheckMethod().(type) {
	case *networking.ReadinessProbe_HttpGet:
		http := &machinev1.HTTPProbe{Scheme: how.HttpGet.GetScheme(), Host: how.HttpGet.GetHost(), Port: how.HttpGet.GetPort(), Path: how.HttpGet.GetPath()}
		for _, h := range how.HttpGet.GetHttpHeaders() {
			http.Headers = append(http.Headers, &machinev1.Header{Name: h.GetName(), Value: h.GetValue()})
		}
		out.How = &machinev1.Probe_Http{Http: http}
	case *networking.ReadinessProbe_TcpSocket:
		out.How = &machinev1.Probe_Tcp{Tcp: &machinev1.TCPProbe{Host: how.TcpSocket.GetHost(), Port: how.TcpSocket.GetPort()}}
	case *networking.ReadinessProbe_Exec:
		out.How = &machinev1.Probe_Exec{Exec: &machinev1.ExecProbe{Command: how.Exec.GetCommand()}}
	case *networking.ReadinessProbe_Grpc:
		out.How = &machinev1.Probe_Grpc{Grpc: &machinev1.GRPCProbe{Port: how.Grpc.GetPort(), Service: how.Grpc.GetService()}}
	default:
		return nil
	}
	return out
}

func seconds(n int32) *durationpb.Duration {
	if n <= 0 {
		return nil
	}
	return durationpb.New(time.Duration(n) * time.Second)
}
