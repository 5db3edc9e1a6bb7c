package probe

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// askGRPC calls gRPC's health service.
func askGRPC(ctx context.Context, p *machinev1.GRPCProbe) error {
	to := at("", p.GetPort())
	what := What(&machinev1.Probe{How: &machinev1.Probe_Grpc{Grpc: p}})
	conn, err := grpc.NewClient("passthrough:///"+to, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("mesh-agent-probe"), grpc.WithNoProxy())
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer conn.Close()
	answer, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: p.GetService()})
	switch s := status.Convert(err); {
	case s.Code() == codes.Unimplemented:
		return fmt.Errorf("%s: the server has no grpc.health.v1.Health", what)
	case s.Code() == codes.NotFound:
		return fmt.Errorf("%s: the server knows of no such service", what)
	case err != nil:
		return fmt.Errorf("%s: %s", what, s.Message())
	case answer.GetStatus() != healthv1.HealthCheckResponse_SERVING:
		return fmt.Errorf("%s: %s", what, answer.GetStatus())
	}
	return nil
}
