package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

const (
	// batchEvery bounds how often Postgres is written to, however many machines come and go. What
	// happens in between is sent together.
	batchEvery = 100 * time.Millisecond
	// batchMost bounds a transaction.
	batchMost = 500
	// answerWithin is how long mcp-server may take for a batch. It waits for the database.
	answerWithin = 30 * time.Second
)

// sessions keeps a session with mcp-server until the context ends.
func (s *Service) sessions(ctx context.Context) error {
	return retry.Loop{
		Pauses: pauses,
		Reason: func(err error, _ time.Duration) {
			s.cfg.Log.Warn("machines cannot be registered now; those that are stay, for the grace period at least", "reason", err)
		},
	}.Forever(ctx, func(func()) error {
		answered, err := s.keep(ctx)
		s.metrics.connected.Set(0)
		if ctx.Err() != nil {
			return err
		}
		why, passing := explain(err)
		s.roster.lost(why, passing)
		if answered { // a session that worked ends with a certificate, or with a server: nothing to log
			return nil
		}
		return errors.New(why)
	})
}

// explain says why there is no session, and whether that may end without anybody's help.
func explain(err error) (why string, passing bool) {
	switch s := status.Convert(err); s.Code() {
	case codes.Unimplemented:
		return "the server that discovery follows keeps no registry of machines: it is no mcp-server, or an older one; write WorkloadEntries by hand, or upgrade it", false
	case codes.PermissionDenied, codes.Unauthenticated:
		return "mcp-server does not let this discovery register machines: " + s.Message(), false
	default:
		return "mcp-server does not register machines now: " + s.Message(), true
	}
}

// keep runs one session. It reports whether mcp-server has ever answered.
func (s *Service) keep(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.cfg.Server.Keep(ctx)
	if err != nil {
		return false, err
	}
	if err := stream.Send(&machinev1.KeepRequest{Discovery: s.cfg.Name}); err != nil {
		return false, received(stream)
	}
	answers, ended := panics.Forwarded(ctx, stream.Recv)
	if err := s.configured(ended); err != nil {
		return false, err
	}
	s.roster.begin()
	for number, next := uint64(1), time.Now(); ; number++ {
		batch, err := s.nextBatch(next, ended)
		if err != nil {
			return answered, err
		}
		begun := time.Now()
		if err := s.report(stream, number, batch, answers, ended); err != nil {
			return answered, err
		}
		answered, next = true, begun.Add(batchEvery)
		s.metrics.connected.Set(1)
		s.metrics.reported(len(batch), time.Since(begun))
	}
}

// configured waits until there is a configuration. The health of a service depends on its group:
// without groups, discovery would report that there is no probe.
func (s *Service) configured(ended <-chan error) error {
	select {
	case <-s.begun:
		return nil
	case err := <-ended:
		return err
	}
}

// received returns why a stream cannot be sent to. Receiving tells.
func received(stream machinev1.RegistryService_KeepClient) error {
	_, err := stream.Recv()
	return err
}

// nextBatch waits until there is something to report, and until it is time to.
func (s *Service) nextBatch(from time.Time, ended <-chan error) ([]reported, error) {
	for {
		select {
		case <-s.roster.wake:
		case err := <-ended:
			return nil, err
		}
		timer := time.NewTimer(time.Until(from))
		select {
		case <-timer.C:
		case err := <-ended:
			timer.Stop()
			return nil, err
		}
		if batch := s.roster.take(batchMost); len(batch) > 0 {
			return batch, nil
		}
	}
}

// report sends a batch and applies its outcomes.
func (s *Service) report(stream machinev1.RegistryService_KeepClient, number uint64, batch []reported, answers <-chan *machinev1.KeepResponse, ended <-chan error) error {
	request := &machinev1.KeepRequest{Number: number, Changes: make([]*machinev1.Change, len(batch))}
	for k, r := range batch {
		request.Changes[k] = r.change
	}
	if err := stream.Send(request); err != nil {
		return <-ended
	}
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case answer := <-answers:
		if answer.GetNumber() != number || len(answer.GetOutcomes()) != len(batch) {
			return fmt.Errorf("it has answered message %d with %d outcomes for %d with %d changes", answer.GetNumber(), len(answer.GetOutcomes()), number, len(batch))
		}
		s.roster.applyOutcomes(batch, answer.GetOutcomes())
		return nil
	case err := <-ended:
		return err
	case <-timer.C:
		return errors.New("it has not answered for " + answerWithin.String())
	}
}
