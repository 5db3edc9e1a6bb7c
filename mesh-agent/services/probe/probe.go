// Package probe runs health probes of this machine's services like Kubernetes': over HTTP, TCP,
// gRPC's health service, or with a command.
package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// Kubernetes' defaults.
const (
	defaultTimeout = time.Second
	defaultPeriod  = 10 * time.Second
	defaultSuccess = 1
	defaultFailure = 3
)

// Timing says when a probe runs, and how many equal results in a row count.
type Timing struct {
	Delay, Timeout, Period time.Duration
	Success, Failure       uint32
}

// TimingOf returns a probe's timing, with defaults.
func TimingOf(p *machinev1.Probe) Timing {
	return Timing{
		Delay: p.GetInitialDelay().AsDuration(), Timeout: orElse(p.GetTimeout(), defaultTimeout), Period: orElse(p.GetPeriod(), defaultPeriod),
		Success: atLeast(p.GetSuccessThreshold(), defaultSuccess), Failure: atLeast(p.GetFailureThreshold(), defaultFailure),
	}
}

func orElse(d *durationpb.Duration, other time.Duration) time.Duration {
	if given := d.AsDuration(); given > 0 {
		return given
	}
	return other
}

func atLeast(n, other uint32) uint32 {
	if n == 0 {
		return other
	}
	return n
}

// Once runs a probe once. The error says briefly what is wrong with the service.
func Once(ctx context.Context, p *machinev1.Probe) error {
	timeout := TimingOf(p).Timeout
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := once(ctx, p)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s: no answer within %s", What(p), timeout)
	}
	return err
}

func once(ctx context.Context, p *machinev1.Probe) error {
	switch how := p.GetHow().(type) {
	case *machinev1.Probe_Http:
		return askHTTP(ctx, how.Http)
	case *machinev1.Probe_Tcp:
		return connect(ctx, how.Tcp)
	case *machinev1.Probe_Grpc:
		return askGRPC(ctx, how.Grpc)
	case *machinev1.Probe_Exec:
		return execute(ctx, how.Exec.GetCommand())
	default:
		return errors.New("the probe does not say how the service is asked, or in a way that this agent does not know")
	}
}
