// Package supervise keeps an Envoy running. It starts Envoy or adopts one from an earlier agent,
// restarts it when it dies, replaces it without a pause when another is desired, and drains it at
// the end. Envoy outlives its supervisor, if that is killed.
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

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoylog"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// defaultParentShutdown is Istio's default, too.
const defaultParentShutdown = time.Minute

// Options says which Envoy to run and how.
type Options struct {
	Envoy     string   // a path, or a name to look up in PATH
	Bootstrap []byte   // content of the configuration file; must have an admin address
	Args      []string // further arguments

	Environment []string // added to this process's environment
	Account     *Account // whom Envoy runs as; nil for this process's account

	// Folder keeps state for the next agent. One agent at a time may use it.
	Folder string
	// Tied makes Envoy die with its agent, however that ends.
	Tied bool

	// DrainTime is how long open connections may take to finish at the end. DrainMin is how long a
	// drain lasts even without connections, for those who need time to notice it.
	DrainTime, DrainMin time.Duration
	// ParentShutdown is how long connections may continue on a replaced Envoy; 0 means a minute.
	ParentShutdown time.Duration
	// Transparent means that connections reach Envoy under addresses that are not its own.
	Transparent bool

	// Reexec replaces this process by the program as it is on disk now. It returns only if that
	// fails.
	Reexec func() error
	// BeforeDrain, if not nil, is called before the last drain. A signal from EndNow ends that
	// drain.
	BeforeDrain func()
	EndNow      <-chan os.Signal

	Output io.Writer // receives Envoy's log
	// Stdout receives Envoy's standard output: access logs that go to /dev/stdout. Nil discards it.
	Stdout io.Writer
	Log    *slog.Logger
}

// Flags declares the flags that say which Envoy to run, and how long it may take to end.
func (o *Options) Flags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Envoy, "envoy", "envoy", "the Envoy to run: a path, or a name to find in PATH")
	flags.DurationVar(&o.DrainTime, "drain-time", 5*time.Second, "how long open connections may take to finish at the end")
	flags.DurationVar(&o.DrainMin, "drain-min", 0, "how long Envoy goes on at the end even if no connection is open, for load balancers that need time to notice")
	flags.DurationVar(&o.ParentShutdown, "parent-shutdown-time", time.Minute,
		"how long connections may go on over an Envoy that another has replaced, because it was upgraded or its flags have changed")
	flags.BoolVar(&o.Tied, "tie-envoy", false, "have Envoy die with this agent, however that ends; otherwise it goes on without one, and the next agent takes it over")
}

// Supervisor runs one Envoy, and those that it has replaced until their connections end.
type Supervisor struct {
	Options

	thread        *thread
	output        *envoylog.Log
	logTailBuffer *process.Tail
	reload        chan struct{}
	pings         chan chan struct{}

	retiring sync.WaitGroup
	ended    chan struct{}

	orders   sync.Mutex // serializes orders to drain
	draining bool       // what was ordered last; guarded by orders

	mu        sync.Mutex
	instances []*instance // the newest last
	restarts  int
	lastEnd   string
}

// New prepares a supervisor; Run starts it.
func New(o Options) (*Supervisor, error) {
	if err := os.MkdirAll(o.Folder, 0o700); err != nil {
		return nil, err
	}
	words := process.NewTail(logTailLines)
	output, err := envoylog.Open(o.Folder, o.Stdout, io.MultiWriter(o.Output, words), o.Log)
	if err != nil {
		return nil, err
	}
	return &Supervisor{
		Options: o, output: output, logTailBuffer: words, reload: make(chan struct{}, 1), pings: make(chan chan struct{}), ended: make(chan struct{}),
	}, nil
}

// Run keeps Envoy running until ctx ends, then drains and ends it. It returns early only when the
// first start fails: then the options are wrong, and trying again would not help. A later death is
// answered with a restart.
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

// EndInherited ends what an earlier agent left running. Call it in place of Run, in an agent that
// is asked to end before it started.
func (s *Supervisor) EndInherited() error {
	s.instances = s.reattachAll()
	return errors.Join(s.shutdown(), s.output.Close())
}

func (s *Supervisor) run(ctx context.Context) error {
	if err := s.startOrAdopt(ctx); err != nil {
		if ctx.Err() != nil {
			return s.shutdown() // the start was abandoned, and an inherited Envoy is unwanted too
		}
		return err
	}
	pause := newRestartBackoff()
	for {
		newest := s.newest()
		select {
		case <-ctx.Done():
			return s.shutdown()
		case answer := <-s.pings:
			close(answer)
		case <-s.reload:
			s.reexec()
		case <-newest.Done():
			if pause.isFirst() && !newest.readConfiguration() && s.predecessor(newest) == nil {
				return s.explain(newest)
			}
			if !s.restart(ctx, newest, pause) {
				return s.shutdown()
			}
		}
	}
}

// startOrAdopt adopts a running Envoy that is as desired, replaces one that is not, or starts a new
// one.
func (s *Supervisor) startOrAdopt(ctx context.Context) error {
	want, err := s.desired()
	if err != nil {
		return err
	}
	s.instances = s.reattachAll()
	newest := s.newest()
	if newest == nil {
		s.output.Clear()
	}
	if newest != nil && newest.ConfigHash == want.ConfigHash {
		_ = newest.ready(ctx) // sets wasReady
		s.followDraining(newest)
		s.Log.Info("Envoy goes on as an earlier agent has started it", "pid", newest.Pid, "since", newest.Started.Round(time.Second))
		s.retireAll()
		return s.writeRecords(recordsOf(s.instances)...)
	}
	if newest != nil {
		return s.replace(ctx, want)
	}
	return s.startCold(want)
}

func (s *Supervisor) newest() *instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.instances) == 0 {
		return nil
	}
	return s.instances[len(s.instances)-1]
}

// running returns the running instances, and forgets the others.
func (s *Supervisor) running() []*instance {
	s.mu.Lock()
	defer s.mu.Unlock()
	var running []*instance
	for _, l := range s.instances {
		if !l.hasEnded() {
			running = append(running, l)
		}
	}
	for _, l := range s.instances {
		if l.hasEnded() {
			releaseBaseID(l.BaseID, running)
		}
	}
	s.instances = running
	return append([]*instance(nil), running...)
}

func (s *Supervisor) started(l *instance) {
	s.mu.Lock()
	s.instances = append(s.instances, l)
	s.mu.Unlock()
	s.followDraining(l)
	s.Log.Info("Envoy started", "pid", l.Pid)
}

// startCold starts an Envoy without a predecessor.
func (s *Supervisor) startCold(r record) error {
	beside := s.running()
	r.Hot, r.BaseID, r.Epoch = false, 0, 0
	if !s.Tied {
		if err := errors.Join(checkHotRestart(), checkDetachable(r.Program)); err != nil {
			s.Log.Warn("Envoy cannot be replaced without a pause on this machine", "error", err)
		} else {
			r.Hot, r.BaseID = true, freeBaseID()
		}
	}
	l, err := s.launch(r, beside)
	if err != nil {
		releaseBaseID(r.BaseID, beside)
		return err
	}
	s.started(l)
	return nil
}

// restart starts Envoy again after a delay, as often as it takes. It returns false when ctx ends
// first.
func (s *Supervisor) restart(ctx context.Context, dead *instance, pause *restartBackoff) bool {
	lived := time.Since(dead.Started)
	s.Log.Error("Envoy died", "how", dead.exit, "lived", lived.Round(time.Millisecond), "last_words", s.logTail())
	for {
		wait := pause.next(lived)
		if wait > 0 {
			s.Log.Info("starting Envoy again", "again_in", wait.Round(time.Millisecond))
		}
		if !s.sleep(ctx, wait) {
			return false
		}
		err := s.startAgain(ctx, dead)
		if err == nil {
			s.mu.Lock()
			s.restarts++
			s.lastEnd = dead.exit
			s.mu.Unlock()
			return true
		}
		s.Log.Error("Envoy could not be started", "error", err)
		lived = 0
	}
}

// sleep waits while serving pings and reloads. It returns false when ctx ends first.
func (s *Supervisor) sleep(ctx context.Context, d time.Duration) bool {
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
			s.reexec()
		}
	}
}

// startAgain replaces an Envoy that died. If it died before it replaced its parent, the new one is
// a child of the same parent.
func (s *Supervisor) startAgain(ctx context.Context, dead *instance) error {
	want, err := s.desired()
	if err != nil {
		return err
	}
	if parent := s.predecessor(dead); parent != nil {
		return s.startHot(ctx, want, parent)
	}
	return s.startCold(want)
}

func (s *Supervisor) reexec() {
	if !s.CanReload() {
		// Exec ends the thread that Envoy is tied to, so the kernel would kill it.
		s.Log.Warn("this agent does not start anew, for Envoy is tied to it: end it and start it again")
		return
	}
	s.output.CatchUp()
	s.Log.Info("this agent starts anew, as it is on disk; Envoy goes on")
	if err := s.Reexec(); err != nil {
		s.Log.Error("this agent could not be restarted, and continues as it is", "error", err)
	}
}

// CanReload reports whether Reload does anything.
func (s *Supervisor) CanReload() bool { return s.Reexec != nil && !s.Tied }

// Reload makes the agent reexec itself. Envoy continues.
func (s *Supervisor) Reload() {
	select {
	case s.reload <- struct{}{}:
	default: // a reload is pending already
	}
}

// Ready returns nil when Envoy has its first configuration and accepts traffic, and otherwise says
// what is missing. While an Envoy starts to replace another, the old one counts.
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

// Alive returns nil if the supervisor's loop responds.
func (s *Supervisor) Alive(ctx context.Context) error {
	answer := make(chan struct{})
	select {
	case s.pings <- answer:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the supervisor of Envoy does not answer: %w", ctx.Err())
	}
}

// slowStartAfter is how long Envoy may wait for its first configuration before Status reports
// trouble.
const slowStartAfter = 10 * time.Second

// Status describes the running Envoy.
func (s *Supervisor) Status() status.Envoy {
	ready := s.readyNow()
	s.mu.Lock()
	defer s.mu.Unlock()
	e := status.Envoy{Restarts: s.restarts, LastEnd: s.lastEnd, Ready: ready == nil}
	if len(s.instances) > 0 {
		l := s.instances[len(s.instances)-1]
		if ready != nil && time.Since(l.Started) > slowStartAfter {
			e.Trouble = "it takes no traffic: " + ready.Error() + "; see what it waits for with mesh-agent logs"
		}
		e.PID, e.Since, e.Epoch, e.Adopted = l.Pid, l.Started, l.Epoch, l.adopted
		e.Admin, _ = l.admin.address()
	}
	return e
}

// readyNow is Ready with a short timeout.
func (s *Supervisor) readyNow() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return s.Ready(ctx)
}
