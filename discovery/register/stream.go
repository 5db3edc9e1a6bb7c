package register

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// stream is a connected machine. The roster's lock guards everything but what is set before the
// machine is in the roster.
type stream struct {
	key    machineKey
	caller *Caller
	begun  time.Time
	poked  chan struct{} // receives when there is something to do

	since     int64                                  // the time that the machine gives for this stream; of two streams the later counts
	instances map[string]*instance                   // by group
	told      map[string]*machinev1.RegisterResponse // the last answer, by group; of all services together by allServices
	untold    map[string]*machinev1.RegisterResponse // answers that were not sent yet, by group
	leaving   bool                                   // the machine has said so
	left      int                                    // instances that have not gone yet
	follows   bool                                   // its agent knows Serving and Untold
	over      bool                                   // another stream is in its place, or it has ended
	failed    error                                  // the error to end with
}

func (s *stream) poke() {
	select {
	case s.poked <- struct{}{}:
	default: // whoever is woken does all
	}
}

// allServices is in place of a group in the answer about all services together.
const allServices = ""

// tellStanding has the machine told whether mcp-server knows what it said last: once it knows that all of
// its services drain, or that none does, and as soon as it is known that it cannot be told. Away says
// why, "" if it can.
func (s *stream) tellStanding(away string) {
	known, drain := 0, 0
	for _, i := range s.instances {
		if i.known == i.version {
			known++
		}
		if i.service.GetHealth() == machinev1.Health_HEALTH_DRAINING {
			drain++
		}
	}
	switch all := len(s.instances); {
	case all == 0:
	case known == all && drain == all:
		s.tell(allServices, &machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Draining{Draining: &machinev1.Draining{}}})
	case !s.follows:
	case known == all && drain == 0:
		s.tell(allServices, &machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Serving{Serving: &machinev1.Serving{}}})
	case known < all && away != "":
		s.tell(allServices, &machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Untold{Untold: &machinev1.Untold{Reason: away}}})
	}
}

// unsay forgets the last answer about all services together, so that the machine is told again.
func (s *stream) unsay() {
	delete(s.told, allServices)
	delete(s.untold, allServices)
}

// end has the stream ended.
func (s *stream) end(err error) {
	s.failed = err
	s.poke()
}

// tell queues an answer, unless it equals the last one.
func (s *stream) tell(group string, r *machinev1.RegisterResponse) {
	if before := s.told[group]; before != nil && proto.Equal(before, r) {
		delete(s.untold, group)
		return
	}
	s.untold[group] = r
	s.poke()
}

// news returns what there is to tell a machine: answers, that it has left, or why its stream ends.
func (b *roster) news(s *stream) (answers []*machinev1.RegisterResponse, left bool, failed error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, group := range slices.Sorted(maps.Keys(s.untold)) {
		answers = append(answers, s.untold[group])
	}
	maps.Copy(s.told, s.untold)
	clear(s.untold)
	return answers, s.leaving && s.left == 0, s.failed
}

const (
	// firstWithin is how long a machine may take for its first message.
	firstWithin = 15 * time.Second
	// A machine that says more than this is read more slowly. With a probe a second, health does
	// not change more often.
	messagesSecond = 2
	messagesBurst  = 50
	// leftWithin is how long a leaving machine waits for confirmation. It leaves in any case.
	leftWithin = 10 * time.Second
)

var errEnding = status.Error(codes.Unavailable, "discovery ends: register at another, or again in a moment")

// Register keeps the services of a machine registered while its stream is open.
func (s *Service) Register(stream machinev1.MachineService_RegisterServer) error {
	caller, err := s.cfg.Who(stream.Context())
	if err != nil {
		return err
	}
	if caller != nil {
		leave, err := s.inside.enter(caller)
		if err != nil {
			return err
		}
		defer leave()
	}
	requests, ended := make(chan *machinev1.RegisterRequest), make(chan error, 1)
	go func() { ended <- read(stream, requests) }()
	m, err := s.introduced(stream.Context(), requests, ended)
	if err != nil {
		return err
	}
	x := newStream(caller, m)
	defer s.roster.close(x)
	if err := s.roster.describe(x, m); err != nil {
		return err
	}
	return s.attend(stream, x, requests, ended)
}

func newStream(caller *Caller, m *machinev1.Machine) *stream {
	if !caller.proven() {
		caller = &Caller{Namespace: m.GetNamespace(), ServiceAccount: m.GetServiceAccount()}
	}
	return &stream{
		key: machineKey{caller.Namespace, caller.ServiceAccount, m.GetId()}, caller: caller, begun: time.Now(), poked: make(chan struct{}, 1),
		instances: map[string]*instance{}, told: map[string]*machinev1.RegisterResponse{}, untold: map[string]*machinev1.RegisterResponse{},
	}
}

// read passes on what a machine says, no faster than it may talk, until its stream ends.
func read(stream machinev1.MachineService_RegisterServer, requests chan<- *machinev1.RegisterRequest) error {
	ctx, pace := stream.Context(), rate.NewLimiter(messagesSecond, messagesBurst)
	return panics.Forward(ctx, func() (*machinev1.RegisterRequest, error) {
		request, err := stream.Recv()
		if err == nil {
			err = checkSize(request)
		}
		if err == nil {
			err = pace.Wait(ctx)
		}
		return request, err
	}, requests)
}

// introduced reads the machine that the first message describes.
func (s *Service) introduced(ctx context.Context, requests <-chan *machinev1.RegisterRequest, ended <-chan error) (*machinev1.Machine, error) {
	timer := time.NewTimer(firstWithin)
	defer timer.Stop()
	select {
	case r := <-requests:
		if r.GetMachine() == nil {
			return nil, status.Error(codes.InvalidArgument, "the first message has to describe the machine")
		}
		return s.judged(ctx, r.GetMachine())
	case err := <-ended:
		return nil, err
	case <-s.done:
		return nil, errEnding
	case <-timer.C:
		return nil, status.Errorf(codes.DeadlineExceeded, "nothing was said of the machine for %s", firstWithin)
	}
}

// attend handles what the machine says, and answers, until either side ends the stream.
func (s *Service) attend(stream machinev1.MachineService_RegisterServer, x *stream, requests <-chan *machinev1.RegisterRequest, ended <-chan error) error {
	var late <-chan time.Time // runs once it leaves
	for {
		select {
		case r := <-requests:
			if err := s.heard(stream.Context(), x, r); err != nil {
				return err
			}
			if r.GetLeaving() != nil && late == nil {
				late = time.After(leftWithin)
			}
		case <-x.poked:
			if done, err := s.say(stream, x); done {
				return err
			}
		case <-late:
			return status.Error(codes.Unavailable, "mcp-server has not removed the machine's entries yet: they go as soon as it is there again")
		case err := <-ended:
			if !errors.Is(err, io.EOF) {
				return err
			}
			if late == nil { // it says nothing more, and waits for nothing
				return nil
			}
			ended = nil
		case <-s.done:
			return errEnding
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// heard handles a message after the first.
func (s *Service) heard(ctx context.Context, x *stream, r *machinev1.RegisterRequest) error {
	switch message := r.GetMessage().(type) {
	case *machinev1.RegisterRequest_Machine:
		m, err := s.judged(ctx, message.Machine)
		if err != nil {
			return err
		}
		if m.GetId() != x.key.id || m.GetNamespace() != x.key.namespace || m.GetServiceAccount() != x.key.serviceAccount {
			return status.Error(codes.InvalidArgument, "a stream is for one machine: describe another over another")
		}
		return s.roster.describe(x, m)
	case *machinev1.RegisterRequest_Health:
		report, err := checkReport(message.Health)
		if err != nil {
			return err
		}
		return s.roster.report(x, report)
	case *machinev1.RegisterRequest_Leaving:
		s.roster.leave(x)
		return nil
	default:
		return status.Error(codes.InvalidArgument, "a message says nothing that this discovery knows")
	}
}

// say sends the machine what is new, and reports whether that was the last.
func (s *Service) say(stream machinev1.MachineService_RegisterServer, x *stream) (done bool, err error) {
	answers, left, failed := s.roster.news(x)
	if failed != nil {
		return true, failed
	}
	for _, a := range answers {
		if err := stream.Send(a); err != nil {
			return true, err
		}
	}
	if left {
		return true, stream.Send(&machinev1.RegisterResponse{Message: &machinev1.RegisterResponse_Left{Left: &machinev1.Left{}}})
	}
	return false, nil
}
