// Package supervise keeps one Envoy running, which outlives it: it starts it, or takes it over from an agent before, starts it again when it
// dies, has another take its place without a pause when another is wanted, and ends it gently when asked.
package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/process"
	"github.com/pgmesh/pgmesh/mesh-agent/envoylog"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// defaultParentShutdown is Istio's, too.
const defaultParentShutdown = time.Minute

// Options says which Envoy to run and how.
type Options struct {
	Envoy     string   // the program: a path, or a name to find in PATH
	Bootstrap []byte   // the contents of its configuration file; must have an admin address
	Args      []string // further arguments

	Environment []string // beside this process's own
	Account     *Account // whom Envoy runs as; nil for whom this process does

	// Folder keeps what the next agent has to know. No other agent may use it meanwhile.
	Folder string
	// Tied has Envoy die with its agent, in whatever way that goes.
	Tied bool

	// DrainTime is how long open connections may take to finish when the supervisor is asked to end, and DrainMin how long it lasts even
	// if there are none, for those who need time to hear of it.
	DrainTime, DrainMin time.Duration
	// ParentShutdown is how long connections may go on over an Envoy that another has replaced; 0 stands for a minute.
	ParentShutdown time.Duration
	// Transparent says that connections come to Envoy under addresses that are not its own.
	Transparent bool

	// Again replaces the running program by itself, as it is on disk now. It returns only if that cannot be done.
	Again func() error
	// Ending, if it is not nil, is called before Envoy is drained for the last time. A signal from Hurry ends that.
	Ending func()
	Hurry  <-chan os.Signal

	Output io.Writer // receives Envoy's log
	// Stdout receives what Envoy writes to its standard output, which is access logs that go to /dev/stdout. Nil throws it away.
	Stdout io.Writer
	Log    *slog.Logger
}

// Supervisor runs one Envoy at a time, and those that it has replaced until they have no connections.
type Supervisor struct {
	Options

	thread *thread
	output *envoylog.Log
	words  *process.Tail
	reload chan struct{}
	pings  chan chan struct{}

	retiring sync.WaitGroup
	ended    chan struct{}

	mu       sync.Mutex
	lives    []*life // the newest last
	restarts int
	lastEnd  string
}

// New prepares a supervisor; Run starts it.
func New(o Options) (*Supervisor, error) {
	if err := os.MkdirAll(o.Folder, 0o700); err != nil {
		return nil, err
	}
	words := process.NewTail(manyWords)
	output, err := envoylog.Open(o.Folder, o.Stdout, io.MultiWriter(o.Output, words), o.Log)
	if err != nil {
		return nil, err
	}
	return &Supervisor{
		Options: o, output: output, words: words, reload: make(chan struct{}, 1), pings: make(chan chan struct{}), ended: make(chan struct{}),
	}, nil
}

// Run keeps Envoy running until ctx ends, then drains and ends it. It returns early only when the first start fails:
// then the options are wrong, and trying again would not help. A later death is answered with a restart.
func (s *Supervisor) Run(ctx context.Context) error {
	s.thread = newThread()
	defer s.thread.end()
	reading, stop := context.WithCancel(context.WithoutCancel(ctx))
	group := errgroup.Group{}
	group.Go(func() error { return s.output.Run(reading) })
	err := s.run(ctx)
	close(s.ended)
	s.retiring.Wait()
	stop()
	err = errors.Join(err, group.Wait())
	s.output.CatchUp()
	return errors.Join(err, s.output.Close())
}

// EndLeft ends what an earlier agent has left, in place of Run, for an agent that is asked to end before it could take that over.
func (s *Supervisor) EndLeft() error {
	s.lives = s.recall()
	return errors.Join(s.end(), s.output.Close())
}

func (s *Supervisor) run(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		if ctx.Err() != nil {
			return s.end() // what was begun was given up, and what an earlier agent left is not wanted any more either
		}
		return err
	}
	pause := newRestartPause()
	for {
		newest := s.newest()
		select {
		case <-ctx.Done():
			return s.end()
		case answer := <-s.pings:
			close(answer)
		case <-s.reload:
			s.replaceProgram()
		case <-newest.Done():
			if pause.isFirst() && !newest.cameUp() && s.predecessor(newest) == nil {
				return s.explain(newest)
			}
			if !s.restart(ctx, newest, pause) {
				return s.end()
			}
		}
	}
}

// begin has an Envoy run as the options ask for it: one that does, or one that takes the place of one that does not, or a new one.
func (s *Supervisor) begin(ctx context.Context) error {
	want, err := s.wanted()
	if err != nil {
		return err
	}
	s.lives = s.recall()
	newest := s.newest()
	if newest == nil {
		s.output.Clear()
	}
	if newest != nil && newest.Wanted == want.Wanted {
		_ = newest.ready(ctx) // to know whether it was
		s.Log.Info("Envoy goes on as an earlier agent has started it", "pid", newest.Pid, "since", newest.Born.Round(time.Second))
		s.retireAll()
		return s.note(recordsOf(s.lives)...)
	}
	if newest != nil {
		return s.replace(ctx, want)
	}
	return s.startCold(want)
}

func (s *Supervisor) newest() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lives) == 0 {
		return nil
	}
	return s.lives[len(s.lives)-1]
}

// living forgets who has ended and returns the others.
func (s *Supervisor) living() []*life {
	s.mu.Lock()
	defer s.mu.Unlock()
	var living []*life
	for _, l := range s.lives {
		if !l.hasEnded() {
			living = append(living, l)
		}
	}
	for _, l := range s.lives {
		if l.hasEnded() {
			forgetUnless(l.BaseID, living)
		}
	}
	s.lives = living
	return append([]*life(nil), living...)
}

func (s *Supervisor) started(l *life) {
	s.mu.Lock()
	s.lives = append(s.lives, l)
	s.mu.Unlock()
	s.Log.Info("Envoy started", "pid", l.Pid)
}

// startCold starts an Envoy that takes nothing over.
func (s *Supervisor) startCold(r record) error {
	beside := s.living()
	r.Hot, r.BaseID, r.Epoch = false, 0, 0
	if !s.Tied {
		if err := errors.Join(cannotHotRestart(), canLast(r.Program)); err != nil {
			s.Log.Warn("Envoy could not be replaced without a pause on this machine, should another be wanted", "error", err)
		} else {
			r.Hot, r.BaseID = true, freeBaseID()
		}
	}
	l, err := s.launch(r, beside)
	if err != nil {
		forgetUnless(r.BaseID, beside)
		return err
	}
	s.started(l)
	return nil
}

// restart brings Envoy back after a pause, however often that takes. It is false when ctx ends first.
func (s *Supervisor) restart(ctx context.Context, dead *life, pause *restartPause) bool {
	lived := time.Since(dead.Born)
	s.Log.Error("Envoy died", "how", dead.how, "lived", lived.Round(time.Millisecond), "last words", s.lastWords())
	for {
		wait := pause.next(lived)
		if wait > 0 {
			s.Log.Info("starting Envoy again", "in", wait.Round(time.Millisecond))
		}
		if !s.rest(ctx, wait) {
			return false
		}
		err := s.startAgain(ctx, dead)
		if err == nil {
			s.mu.Lock()
			s.restarts++
			s.lastEnd = dead.how
			s.mu.Unlock()
			return true
		}
		s.Log.Error("Envoy could not be started", "error", err)
		lived = 0
	}
}

// rest waits and answers meanwhile. It is false when ctx ends first.
func (s *Supervisor) rest(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		case answer := <-s.pings:
			close(answer)
		case <-s.reload:
			s.replaceProgram()
		}
	}
}

// startAgain starts an Envoy in place of one that died: as the child of the same parent if it died before it took that one's place, or
// else for itself.
func (s *Supervisor) startAgain(ctx context.Context, dead *life) error {
	want, err := s.wanted()
	if err != nil {
		return err
	}
	if parent := s.predecessor(dead); parent != nil {
		return s.startHot(ctx, want, parent)
	}
	return s.startCold(want)
}

func (s *Supervisor) replaceProgram() {
	if s.Again == nil || s.Tied {
		// To the kernel its parent would have ended.
		s.Log.Warn("this agent does not start anew, for Envoy is tied to it: end it and start it again")
		return
	}
	s.output.CatchUp()
	s.Log.Info("this agent starts anew, as it is on disk; Envoy goes on")
	if err := s.Again(); err != nil {
		s.Log.Error("this agent could not start anew, and goes on as it is", "error", err)
	}
}

// Reload has the agent's program start anew within its process. Envoy goes on.
func (s *Supervisor) Reload() {
	select {
	case s.reload <- struct{}{}:
	default: // it is about to
	}
}

// Ready is nil when Envoy has its first configuration and accepts traffic; otherwise it says what is missing. While an Envoy gets ready to take
// the place of another, it is the other that counts.
func (s *Supervisor) Ready(ctx context.Context) error {
	l := s.newest()
	if l == nil {
		return errNotStarted
	}
	err := l.ready(ctx)
	if err != nil && s.predecessor(l) != nil {
		return nil
	}
	return err
}

// Alive is nil while the supervisor does its work.
func (s *Supervisor) Alive(ctx context.Context) error {
	answer := make(chan struct{})
	select {
	case s.pings <- answer:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the supervisor of Envoy does not answer: %w", ctx.Err())
	}
}

// longStart is how long Envoy may wait for its first configuration before something is wrong.
const longStart = 10 * time.Second

// Status tells what runs.
func (s *Supervisor) Status() status.Envoy {
	ready := s.readyNow()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := status.Envoy{Restarts: s.restarts, LastEnd: s.lastEnd, Ready: ready == nil}
	if len(s.lives) > 0 {
		l := s.lives[len(s.lives)-1]
		if ready != nil && time.Since(l.Born) > longStart {
			e.Trouble = "it takes no traffic: " + ready.Error() + "; see what it waits for with mesh-agent logs"
		}
		e.PID, e.Since, e.Epoch, e.Adopted = l.Pid, l.Born, l.Epoch, l.adopted
		e.Admin, _ = l.admin.address()
	}
	return e
}

// readyNow is Ready for somebody who does not wait.
func (s *Supervisor) readyNow() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.Ready(ctx)
}
