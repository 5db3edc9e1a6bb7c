package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

var (
	// quickly are the pauses between streams. Another discovery has to take over well within the
	// grace period, after which entries are removed.
	quickly = retry.Pauses{First: 200 * time.Millisecond, Longest: 10 * time.Second, Jitter: 0.3}
	// slowly are those while an operator has to act first.
	slowly = retry.Pauses{First: 15 * time.Second, Longest: 5 * time.Minute, Jitter: 0.3}
)

// stableAfter is how long a stream has to last for the pauses to start over.
const stableAfter = 10 * time.Second

var (
	errNotConnected = errors.New("the machine is not connected to discovery, and cannot leave in good order: its entries go when the grace period is over")
	errLeft         = errors.New("the machine has left")
)

// streams opens one stream after the other, until the context ends or the machine has left.
func (a *Agent) streams(ctx context.Context) error {
	quick, slow := quickly.Backoff(), slowly.Backoff()
	logged := ""
	for {
		begun, retry := time.Now(), a.retry()
		err := a.stream(ctx)
		switch {
		case errors.Is(err, errLeft):
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if time.Since(begun) > stableAfter {
			quick.Reset()
			slow.Reset()
		}
		why, needsAction := explain(err)
		a.setDisconnected(why)
		pause, sooner := quick.Next(), (<-chan struct{})(nil)
		if needsAction {
			pause, sooner = slow.Next(), retry
		}
		if why != logged {
			logged = why
			a.logDisconnect(why, needsAction, pause)
		}
		if err := a.pause(ctx, pause, sooner); err != nil {
			return err
		}
	}
}

func (a *Agent) logDisconnect(why string, needsAction bool, pause time.Duration) {
	if needsAction {
		a.o.Log.Error("this machine is not registered", "error", why, "again_in", pause.Round(time.Millisecond))
		return
	}
	a.o.Log.Info("reconnecting to discovery, to stay registered", "reason", why)
}

// retry returns a channel that is closed when what was refused may be let in, nil if that is never
// known.
func (a *Agent) retry() <-chan struct{} {
	if a.o.Retry == nil {
		return nil
	}
	return a.o.Retry()
}

// pause waits, but not longer than until sooner is closed, and not for a machine that is to leave:
// without a stream, it fails to.
func (a *Agent) pause(ctx context.Context, d time.Duration, sooner <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-sooner:
		return nil
	case left := <-a.leaving:
		left <- errNotConnected
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explain says why a stream ended, and whether an operator has to act before the next can succeed.
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

// stream runs one stream to its end.
func (a *Agent) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := a.open(ctx)
	if err != nil {
		return err
	}
	begun, err := a.since.next()
	if err != nil {
		a.o.Log.Error("cannot save when this machine was registered; after a restart with the clock set back, discovery may not accept it", "error", err)
	}
	m := a.description(begun)
	if err := stream.Send(&machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Machine{Machine: m}}); err != nil {
		_, err = stream.Recv() // which says why the stream has ended
		return err
	}
	answers, ended := panics.Forwarded(ctx, stream.Recv)
	a.connected()
	t := session{a: a, stream: stream, reported: map[string]*machinev1.HealthReport{}}
	for _, s := range m.GetServices() {
		t.reported[s.GetGroup()] = &machinev1.HealthReport{Group: s.GetGroup(), Health: s.GetHealth(), Detail: s.GetDetail()}
	}
	return t.run(ctx, answers, ended)
}

// open opens a stream, waiting for discovery. A machine that leaves meanwhile has no stream to say
// so on.
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
	context.AfterFunc(stream.Context(), func() { cancel(nil) }) // ctx is of no use after the stream
	return stream, nil
}

// session is the state of one stream.
type session struct {
	a        *Agent
	stream   machinev1.MachineService_RegisterClient
	reported map[string]*machinev1.HealthReport // the health last sent, by group
	left     chan<- error                       // where Leave waits for the result; nil unless leaving
}

func (t *session) run(ctx context.Context, answers <-chan *machinev1.RegisterResponse, ended <-chan error) error {
	for {
		var err error
		leaving := t.a.leaving
		if t.left != nil {
			leaving = nil // one Leave at a time: this one has the stream's answer
		}
		select {
		case answer := <-answers:
			if answer.GetLeft() != nil && t.left != nil {
				t.left <- nil
				return errLeft
			}
			t.a.handle(answer)
		case <-t.a.reportDue:
			err = t.report()
		case t.left = <-leaving:
			err = t.stream.Send(&machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Leaving{Leaving: &machinev1.Leaving{}}})
		case err = <-ended:
			return t.ended(err)
		case <-ctx.Done():
			return t.ended(ctx.Err())
		}
		if err != nil { // the stream has ended, and receiving says why
			return t.ended(<-ended)
		}
	}
}

// ended fails a pending Leave.
func (t *session) ended(err error) error {
	if t.left == nil {
		return err
	}
	t.left <- fmt.Errorf("the machine may not have left in good order: %s", status.Convert(err).Message())
	return errLeft
}

// report sends the health of each service whose last report differs.
func (t *session) report() error {
	for _, r := range t.a.reports() {
		if proto.Equal(t.reported[r.GetGroup()], r) {
			continue
		}
		if err := t.stream.Send(&machinev1.RegisterRequest{Message: &machinev1.RegisterRequest_Health{Health: r}}); err != nil {
			return err
		}
		t.reported[r.GetGroup()] = r
	}
	return nil
}
