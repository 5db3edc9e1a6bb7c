package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// DrainStatus is how far a machine is drained.
type DrainStatus struct {
	State       string    `json:"state"`
	Since       time.Time `json:"since,omitzero"` // when it was drained
	Connections int       `json:"connections"`    // open connections from clients
	// Alone are the hosts that had no other healthy machine when this one was drained.
	Alone []string `json:"alone,omitempty"`
	// NotTold says why the mesh does not know yet that the machine is no longer drained.
	NotTold string `json:"notTold,omitempty"`
	Trouble string `json:"trouble,omitempty"`
}

// Alone says which hosts would be left with no healthy machine if this one drained now.
type Alone struct {
	Hosts   []string `json:"hosts,omitempty"`
	Unknown string   `json:"unknown,omitempty"` // why that cannot be told
}

// Left says how many connections are left.
func (d DrainStatus) Left() string {
	switch {
	case d.Trouble != "":
		return "whether connections are left cannot be told: " + d.Trouble
	case d.Connections == 0:
		return "no connection is left"
	case d.Connections == 1:
		return "1 connection is left"
	default:
		return fmt.Sprintf("%d connections are left", d.Connections)
	}
}

// Drainer takes a machine out of the mesh, and back.
type Drainer struct {
	// Withdraw has others send this machine nothing new, and Return has them send again. Returned waits
	// until the mesh knows of that, or says why it does not yet. They are nil for a machine that is not
	// registered, and so is Tell, which tells the mesh how far a drain has come.
	Withdraw func(context.Context) error
	Return   func()
	Returned func(context.Context) error
	Tell     func(string)
	// Alone returns the hosts that this machine alone takes requests for. It is nil for a machine that
	// is not registered.
	Alone func(context.Context) ([]string, error)
	// Drain makes Envoy send its clients away, without ending it, and Undrain keep them again.
	Drain, Undrain func(context.Context) error
	// Save and Remove keep for the next agent that the machine is drained.
	Save   func(since time.Time) error
	Remove func() error
}

const (
	// drainTimeout bounds telling the mesh and telling Envoy.
	drainTimeout = 30 * time.Second
	// lookInterval is how often a drained machine looks whether connections are left.
	lookInterval = time.Second
	// aloneTimeout bounds the question who else takes requests: a drain does not wait for more.
	aloneTimeout = 2 * time.Second
)

// alone asks which hosts would be left with no healthy machine.
func (s *Server) alone(ctx context.Context) (a Alone) {
	if s.Drainer.Alone == nil || s.state.Load() != Running {
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, aloneTimeout)
	defer cancel()
	var err error
	if a.Hosts, err = s.Drainer.Alone(ctx); err != nil {
		a.Unknown = err.Error()
	}
	return a
}

// Drained makes this the agent of a machine that an earlier agent has drained. Call it before
// Serve.
func (s *Server) Drained(since time.Time) {
	s.drainedAt.Store(&since)
	s.State(Draining)
	s.Log.Info("this machine is drained, as it was under the agent before: mesh-agent undrain takes it back", "since", since.Round(time.Second))
}

// drain has others send nothing new first, and then sends connected clients away. It may be
// repeated if it failed.
func (s *Server) drain(ctx context.Context) error {
	s.draining.Lock()
	defer s.draining.Unlock()
	if s.state.Load() != Running {
		return nil
	}
	since, needed := time.Now(), s.alone(ctx)
	if len(needed.Hosts) > 0 {
		s.Log.Warn("services are left with no healthy machine, as this one drains", "hosts", strings.Join(needed.Hosts, ", "))
	}
	if s.Drainer.Withdraw != nil {
		if err := s.Drainer.Withdraw(ctx); err != nil {
			return fmt.Errorf("tell others to send nothing here: %w; nothing was drained: try again", err)
		}
	}
	if err := s.Drainer.Drain(ctx); err != nil {
		return fmt.Errorf("drain Envoy: %w; others send nothing here already: try again", err)
	}
	s.drainedAt.Store(&since)
	s.drainedAlone.Store(&needed.Hosts)
	if err := s.Drainer.Save(since); err != nil {
		s.Log.Warn("if this agent is killed, the next one does not drain any more", "error", err)
	}
	s.state.CompareAndSwap(Running, Draining)
	s.Log.Info("drained: nothing new is sent here, and what is open may finish; Envoy goes on. mesh-agent undrain takes it back")
	return nil
}

// undrain takes a drain back, also one that has failed halfway: first Envoy keeps its clients, and
// then others send it new ones.
func (s *Server) undrain(ctx context.Context) error {
	s.draining.Lock()
	defer s.draining.Unlock()
	if s.state.Load() == Ending {
		return errors.New("the agent is ending: start it again, and it serves")
	}
	if err := s.Drainer.Undrain(ctx); err != nil {
		return fmt.Errorf("have Envoy keep its clients: %w; the machine is drained still: try again", err)
	}
	if err := s.Drainer.Remove(); err != nil {
		return fmt.Errorf("forget that this machine is drained: %w; others send nothing here still: try again", err)
	}
	if s.Drainer.Return != nil {
		s.Drainer.Return()
	}
	if s.state.CompareAndSwap(Draining, Running) {
		s.Log.Info("no longer drained: others are told to send requests here again")
	}
	return nil
}

// drainStatus asks Envoy which connections are left.
func (s *Server) drainStatus(ctx context.Context) DrainStatus {
	d := DrainStatus{State: s.state.Load().(string)}
	if since := s.drainedAt.Load(); since != nil && d.State == Draining {
		d.Since = *since
		if hosts := s.drainedAlone.Load(); hosts != nil {
			d.Alone = *hosts
		}
	}
	open, err := s.Envoy.Downstream(ctx)
	if d.Connections = open.Connections; err != nil {
		d.Trouble = err.Error()
	}
	return d
}

// serveUndrain takes a drain back, and says whether the mesh knows. It finishes even if the caller goes
// away.
func (s *Server) serveUndrain(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), drainTimeout)
	defer cancel()
	if err := s.undrain(ctx); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var untold error
	if s.Drainer.Returned != nil {
		untold = s.Drainer.Returned(ctx)
	}
	d := s.drainStatus(r.Context())
	if untold != nil && d.State == Running {
		d.NotTold = untold.Error()
	}
	writeJSON(w, d)
}

func (s *Server) serveDrainStatus(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, s.drainStatus(r.Context()))
}

// FollowDrain tells the mesh whether connections are left, while the machine is drained and until
// the context ends. It says no number, as that changes all the time.
func (s *Server) FollowDrain(ctx context.Context) {
	if s.Drainer.Tell == nil {
		return
	}
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if d := s.drainStatus(ctx); d.State == Draining && d.Trouble == "" {
			s.Drainer.Tell(d.forMesh())
		}
	}
}

// forMesh is what the mesh is told: since when, and whether anything is left.
func (d DrainStatus) forMesh() string {
	left := "connections are left"
	if d.Connections == 0 {
		left = d.Left()
	}
	return fmt.Sprintf("drained at %s, %s", d.Since.UTC().Format(time.RFC3339), left)
}
