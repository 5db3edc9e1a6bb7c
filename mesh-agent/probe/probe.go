// Package probe asks services of this machine how they are, as Kubernetes' probes do: over HTTP, by a connection, by gRPC's health service, or
// with a command.
package probe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// What a probe leaves open is as in Kubernetes.
const (
	defaultTimeout = time.Second
	defaultPeriod  = 10 * time.Second
	defaultSuccess = 1
	defaultFailure = 3
)

// Timing is when a service is asked, and how often in a row it has to answer alike before that counts.
type Timing struct {
	Delay, Timeout, Period time.Duration
	Success, Failure       uint32
}

// TimingOf is that of a probe, with the defaults for what it leaves open.
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

// Once asks a service once. The error says in a few words what is wrong with it.
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
