package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/internal/kit/panics"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/program"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/envoyadmin"
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
)

// SocketName is the name of the socket in the state folder.
const SocketName = "agent.sock"

// Server serves the status of one agent, and takes orders for it.
type Server struct {
	Parts    Parts
	Lines    *Lines
	StateDir string
	Log      *slog.Logger

	// Ready returns nil while Envoy accepts connections.
	Ready func(context.Context) error
	// Redirected means that traffic to this machine is redirected to Envoy, which then needs a
	// listener for it.
	Redirected bool
	Drainer    Drainer
	// Rejoin takes up what mesh-agent join has put into the state folder. If the agent has to start anew
	// for that, Reload has it do so.
	Rejoin func() (Rejoined, error)
	Reload func()
	// Namesake says that another agent of this machine has this one's name, "" if none has. It may be
	// nil.
	Namesake func() string
	// Stop ends the agent, as SIGTERM does.
	Stop func()
	// Envoy is asked for its version, its open connections and its listeners.
	Envoy *envoyadmin.Admin
	// Settings returns the settings in force.
	Settings func() []settings.Setting
	// Metrics are the agent's own metrics.
	Metrics prometheus.Gatherer
	// StatsPage serves them with those of Envoy and of applications.
	StatsPage http.Handler

	since     time.Time
	state     atomic.Value // a string
	drainedAt atomic.Pointer[time.Time]
	// drainedAlone are the hosts that were left with no healthy machine by that.
	drainedAlone atomic.Pointer[[]string]

	draining sync.Mutex // serializes drains and their opposite

	versionMu  sync.Mutex
	versionPID int // the process that version belongs to
	version    string
}

// States of an agent.
const (
	Running  = "running"
	Draining = "draining" // others send nothing new, and Envoy still serves
	Ending   = "ending"
)

// State sets the agent's state.
func (s *Server) State(now string) { s.state.Store(now) }

// New returns the server of an agent that starts now.
func New() *Server {
	s := &Server{Lines: &Lines{}, since: time.Now()}
	s.State(Running)
	return s
}

// Report asks all parts.
func (s *Server) Report(ctx context.Context) Report {
	state := s.state.Load().(string)
	r := s.Parts.Ask(Agent{PID: os.Getpid(), Version: program.Version(), Since: s.since, StateDir: s.StateDir, State: state, Trouble: s.namesake()})
	if r.Envoy != nil {
		r.Envoy.Version = s.versionOf(ctx, r.Envoy.PID)
		s.checkReady(ctx, r.Envoy)
	}
	if state == Draining {
		d := s.drainStatus(ctx)
		r.Drain = &d
		if r.Agent.Trouble != "" {
			r.Agent.Trouble += "; "
		}
		r.Agent.Trouble += "it was drained at " + d.Since.UTC().Format(time.RFC3339) + ": others send nothing here until mesh-agent undrain, or until it is started again"
		if r.Envoy != nil {
			r.Envoy.Trouble = "" // not ready is what was asked for
		}
	}
	return r
}

func (s *Server) namesake() string {
	if s.Namesake == nil {
		return ""
	}
	return s.Namesake()
}

// checkReady marks Envoy as not ready if it lacks the inbound listener.
func (s *Server) checkReady(ctx context.Context, e *Envoy) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if !e.Ready {
		return
	}
	if err := s.checkInbound(ctx); errors.Is(err, errNoInbound) {
		e.Ready, e.Trouble = false, err.Error()
	}
}

// versionOf asks each Envoy process once.
func (s *Server) versionOf(ctx context.Context, pid int) string {
	s.versionMu.Lock()
	defer s.versionMu.Unlock()
	if s.versionPID != pid || s.version == "" {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		s.version, _ = s.Envoy.Version(ctx) // retried while it is empty
		s.versionPID = pid
	}
	return s.version
}

// Open opens the socket in the state folder.
func (s *Server) Open() (net.Listener, error) {
	path, err := listen.UnixPath("state-dir", s.StateDir, SocketName)
	if err != nil {
		return nil, err
	}
	return listen.Unix(path)
}

// Serve serves the socket until the context ends. Whoever may connect to it may use everything
// here.
func (s *Server) Serve(ctx context.Context, socket net.Listener) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, s.Report(r.Context())) })
	mux.HandleFunc("GET /logs", s.serveLines)
	mux.HandleFunc("GET /settings", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.Settings()) })
	mux.HandleFunc("POST /rejoin", s.serveRejoin)
	s.handleOrders(mux)
	return serve(ctx, socket, mux)
}

// serve also ends requests under way with the context: a client may be following lines.
func serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler: panics.Handler(handler), ReadHeaderTimeout: 5 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the status: %w", err)
	}
	return nil
}

// serveLines writes the last lines as JSON objects, and with follow each new one.
func (s *Server) serveLines(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	f := Filter{From: query.Get("from"), Level: level(query.Get("level")), Component: query.Get("component")}
	n, err := strconv.ParseUint(query.Get("n"), 10, 31)
	if err = errors.Join(err, f.check()); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	if query.Get("follow") == "" {
		for _, line := range s.Lines.Last(int(n), f) {
			if err := out.Encode(line); err != nil {
				return
			}
		}
		return
	}
	flusher := http.NewResponseController(w)
	_ = flusher.Flush() // so that the client knows that it is connected
	for line := range s.Lines.Follow(r.Context(), int(n), f) {
		if err := errors.Join(out.Encode(line), flusher.Flush()); err != nil {
			return
		}
	}
}

func (f Filter) check() error {
	return errors.Join(
		oneOf("level", f.Level, Levels),
		oneOf("from", f.From, []string{FromAgent, FromEnvoy, FromAccess}),
	)
}

func oneOf(what, word string, known []string) error {
	if word == "" || slices.Contains(known, word) {
		return nil
	}
	return fmt.Errorf("%s %q: %s", what, word, nearest.Hint(word, known, "choose one of "))
}
