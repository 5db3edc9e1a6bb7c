package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/kit/retry"
	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// pauses are those before the next report.
var pauses = retry.Pauses{First: 250 * time.Millisecond, Longest: 5 * time.Second}

// answerWithin is how long mcp-server may take for a message. It waits for the database.
const answerWithin = 30 * time.Second

// reports sends reports until the context ends, on one stream after the other.
func (r *Reporter) reports(ctx context.Context) error {
	return retry.Loop{
		Pauses: pauses,
		Reason: func(err error, _ time.Duration) {
			r.cfg.Log.Warn("mesh.proxies does not show now what the proxies of this discovery run", "reason", err)
		},
	}.Forever(ctx, func(func()) error {
		answered, err := r.report(ctx)
		r.metrics.connected.Set(0)
		switch {
		case ctx.Err() != nil:
			return err
		case answered: // a report that worked ends with a certificate, or with a server: nothing to log
			return nil
		}
		return explain(err)
	})
}

func explain(err error) error {
	switch s := status.Convert(err); s.Code() {
	case codes.Unimplemented:
		return errors.New("the server that discovery follows takes no reports: it is no mcp-server, or an older one, which has to be upgraded first")
	case codes.PermissionDenied, codes.Unauthenticated:
		return errors.New("mcp-server does not let this discovery report: " + s.Message())
	default:
		return errors.New("mcp-server takes no reports now: " + s.Message())
	}
}

// session is one report.
type session struct {
	stream   rolloutv1.RolloutService_ReportClient
	answers  <-chan *rolloutv1.ReportResponse
	ended    <-chan error
	number   uint64
	compared time.Time // when proxies were compared last
	settled  time.Time // when it was reported last that all proxies had come to run something
}

// report reports on one stream, until it ends. It says whether mcp-server has ever answered.
func (r *Reporter) report(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := r.cfg.Server.Report(ctx)
	if err != nil {
		return false, err
	}
	s := &session{stream: stream}
	s.answers, s.ended = panics.Forwarded(ctx, stream.Recv)
	r.ledger.begin()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for messages := r.ledger.differences(time.Now()); ; {
		if err := r.sendAll(s, messages); err != nil {
			return s.number > 1, err
		}
		if messages, err = r.next(s, tick.C); err != nil {
			return s.number > 0, err
		}
	}
}

func (r *Reporter) sendAll(s *session, messages []*rolloutv1.ReportRequest) error {
	for _, m := range messages {
		if s.number == 0 {
			m.Discovery = r.cfg.Name
		}
		begun := time.Now()
		if err := s.send(m); err != nil {
			return err
		}
		r.metrics.sent(m, time.Since(begun))
	}
	return nil
}

// next waits until there may be something to report, and returns the messages.
func (r *Reporter) next(s *session, tick <-chan time.Time) ([]*rolloutv1.ReportRequest, error) {
	for {
		select {
		case <-tick:
			now := time.Now()
			if now.Sub(s.settled) < interval { // what is reported so often need not be compared
				continue
			}
			if !r.ledger.rests() || now.Sub(s.compared) >= restInterval {
				s.compared = now
				return r.ledger.differences(now), nil
			}
		case <-r.ledger.watch.settled:
			if err := s.rest(leastInterval - time.Since(s.settled)); err != nil {
				return nil, err
			}
			now := time.Now()
			messages := r.ledger.settled(now)
			if len(messages) > 0 {
				s.settled = now
			}
			return messages, nil
		case err := <-s.ended:
			return nil, err
		}
	}
}

// rest waits for a while, unless the stream ends.
func (s *session) rest(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case err := <-s.ended:
		return err
	}
}

// send sends a message and waits until it is taken.
func (s *session) send(m *rolloutv1.ReportRequest) error {
	s.number++
	m.Number = s.number
	if err := s.stream.Send(m); err != nil {
		return <-s.ended // which says why
	}
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case answer := <-s.answers:
		if answer.GetNumber() != s.number {
			return fmt.Errorf("it has answered message %d with number %d", s.number, answer.GetNumber())
		}
		return nil
	case err := <-s.ended:
		return err
	case <-timer.C:
		return errors.New("it has not answered for " + answerWithin.String())
	}
}
