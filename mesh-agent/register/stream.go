package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cenkalti/backoff/v5"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/panics"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

const (
	// The pauses before the next stream. Another discovery should have the machine long before the grace period is over.
	pauseFirst = 200 * time.Millisecond
	pauseLast  = 10 * time.Second
	// Where somebody has to do something first.
	refusedFirst = 15 * time.Second
	refusedLast  = 5 * time.Minute
	// settledAfter is how long a stream has to live for the pauses to begin anew.
	settledAfter = 10 * time.Second
)

var (
	errNotConnected = errors.New("the machine is not connected to discovery, and cannot leave in good order: its entries go when the grace period is over")
	errLeft         = errors.New("the machine has left")
)

func pauses(first, last time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.RandomizationFactor = first, last, 0.3
	b.Reset()
	return b
}

// streams opens one stream after the other.
func (a *Agent) streams(ctx context.Context) error {
	soon, late := pauses(pauseFirst, pauseLast), pauses(refusedFirst, refusedLast)
	said := ""
	for {
		begun := time.Now()
		err := a.stream(ctx)
		switch {
		case errors.Is(err, errLeft):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if time.Since(begun) > settledAfter {
			soon.Reset()
			late.Reset()
		}
		why, lasting := explain(err)
		a.lost(why)
		pause := soon.NextBackOff()
		if lasting {
			pause = late.NextBackOff()
		}
		if why != said {
			said = why
			a.tellLost(why, lasting, pause)
		}
		if err := a.pause(ctx, pause); err != nil {
			return err
		}
	}
}

func (a *Agent) tellLost(why string, lasting bool, pause time.Duration) {
	if lasting {
		a.o.Log.Error("this machine is not registered", "error", why, "again_in", pause.Round(time.Millisecond))
		return
	}
	a.o.Log.Info("this machine connects to discovery anew, to stay registered", "because", why)
}

// pause waits, unless the machine is to leave: there is nobody to tell that to then.
func (a *Agent) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case left := <-a.leaving:
		left <- errNotConnected
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explain says why a stream has ended, and whether it will end so again as long as nobody does something.
func explain(err error) (why string, lasting bool) {
	s := status.Convert(err)
	switch s.Code() {
	case codes.Aborted, codes.InvalidArgument, codes.PermissionDenied, codes.ResourceExhausted:
		return s.Message(), true
	case codes.Unimplemented:
		return "discovery registers no machines: it is an older one, which has to be upgraded", true
	case codes.OK:
		return err.Error(), false
	default:
		return s.Message(), false
	}
}

// stream is one of them.
func (a *Agent) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := a.open(ctx)
	if err != nil {
		return err
	}
	begun, err := a.since.next()
	if err != nil {
		a.o.Log.Error("an agent that is started again with its clock set back may not be believed", "error", err)
	}
	m := a.description(begun)
	if err := stream.Send(&machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Machine{Machine: m}}); err != nil {
		_, err = stream.Recv()
		return err
	}
	answers, ended := make(chan *machinev1.RegisterResponse), make(chan error, 1)
	go func() { ended <- receive(ctx, stream, answers) }()
	a.connected()
	t := talk{a: a, stream: stream, told: map[string]*machinev1.HealthReport{}}
	for _, s := range m.GetServices() {
		t.told[s.GetGroup()] = &machinev1.HealthReport{Group: s.GetGroup(), Health: s.GetHealth(), Detail: s.GetDetail()}
	}
	return t.run(ctx, answers, ended)
}

// open opens a stream, as soon as there is a discovery; a machine that leaves meanwhile was never there.
func (a *Agent) open(ctx context.Context) (machinev1.MachineService_RegisterClient, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	opened, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case left := <-a.leaving:
			cancel(errLeft)
			left <- errNotConnected
		case <-opened:
		}
	}()
	stream, err := machinev1.NewMachineServiceClient(a.o.Discovery).Register(ctx, grpc.WaitForReady(true))
	close(opened)
	<-done
	if cause := context.Cause(ctx); errors.Is(cause, errLeft) {
		return nil, errLeft
	}
	if err != nil {
		cancel(nil)
		return nil, err
	}
	context.AfterFunc(stream.Context(), func() { cancel(nil) })
	return stream, nil
}

func receive(ctx context.Context, stream machinev1.MachineService_RegisterClient, answers chan<- *machinev1.RegisterResponse) error {
	for {
		answer, err := panics.Receive(stream.Recv)
		if err != nil {
			return err
		}
		select {
		case answers <- answer:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// talk is what is said over a stream.
type talk struct {
	a      *Agent
	stream machinev1.MachineService_RegisterClient
	told   map[string]*machinev1.HealthReport // how discovery knows that each service is
	left   chan<- error                       // who waits for the machine to have left; nil as long as it stays
}

func (t *talk) run(ctx context.Context, answers <-chan *machinev1.RegisterResponse, ended <-chan error) error {
	for {
		var err error
		leaving := t.a.leaving
		if t.left != nil {
			leaving = nil
		}
		select {
		case answer := <-answers:
			if answer.GetLeft() != nil && t.left != nil {
				t.left <- nil
				return errLeft
			}
			t.a.heard(answer)
		case <-t.a.changed:
			err = t.report()
		case t.left = <-leaving:
			err = t.stream.Send(&machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Leaving{Leaving: &machinev1.Leaving{}}})
		case err = <-ended:
			return t.ended(err)
		case <-ctx.Done():
			return t.ended(ctx.Err())
		}
		if err != nil { // it has ended, and receiving tells why
			return t.ended(<-ended)
		}
	}
}

// ended tells who waits for the machine to have left that nobody knows.
func (t *talk) ended(err error) error {
	if t.left == nil {
		return err
	}
	t.left <- fmt.Errorf("the machine may not have left in good order: %s", status.Convert(err).Message())
	return errLeft
}

// report tells of each service that is otherwise than discovery knows.
func (t *talk) report() error {
	for _, r := range t.a.reports() {
		if proto.Equal(t.told[r.GetGroup()], r) {
			continue
		}
		if err := t.stream.Send(&machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Health{Health: r}}); err != nil {
			return err
		}
		t.told[r.GetGroup()] = r
	}
	return nil
}
