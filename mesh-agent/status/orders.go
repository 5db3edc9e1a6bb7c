package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// DrainStatus is the progress of a drain.
type DrainStatus struct {
	State       string `json:"state"`
	Connections int    `json:"connections"` // open connections from clients
	Trouble     string `json:"trouble,omitempty"`
}

// drainTimeout bounds telling the mesh and telling Envoy.
const drainTimeout = 30 * time.Second

// handleOrders registers the endpoints that tell the agent to do something.
func (s *Server) handleOrders(mux *http.ServeMux) {
	mux.HandleFunc("GET /drain", s.serveDrainStatus)
	mux.HandleFunc("POST /drain", func(w http.ResponseWriter, r *http.Request) {
		// Finish even if the caller goes away.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), drainTimeout)
		defer cancel()
		if err := s.drain(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s.serveDrainStatus(w, r)
	})
	mux.HandleFunc("POST /quitquitquit", func(w http.ResponseWriter, _ *http.Request) {
		s.Log.Info("asked to end over HTTP")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintln(w, "ending")
		s.Stop()
	})
}

// drain has others send nothing new first, and then sends connected clients away. It may be
// repeated if it failed.
func (s *Server) drain(ctx context.Context) error {
	s.draining.Lock()
	defer s.draining.Unlock()
	if s.state.Load() != Running {
		return nil
	}
	if s.Withdraw != nil {
		if err := s.Withdraw(ctx); err != nil {
			return fmt.Errorf("tell others to send nothing here: %w; nothing was drained: try again", err)
		}
	}
	if err := s.Drain(ctx); err != nil {
		return fmt.Errorf("drain Envoy: %w; others send nothing here already: try again", err)
	}
	s.state.CompareAndSwap(Running, Draining)
	s.Log.Info("drained: nothing new is sent here, and what is open may finish; Envoy goes on until the agent ends")
	return nil
}

func (s *Server) serveDrainStatus(w http.ResponseWriter, r *http.Request) {
	d := DrainStatus{State: s.state.Load().(string)}
	open, err := s.Envoy.Downstream(r.Context())
	if d.Connections = open.Connections; err != nil {
		d.Trouble = err.Error()
	}
	writeJSON(w, d)
}

// ready returns an error unless this machine should get traffic.
func (s *Server) ready(ctx context.Context) error {
	if state := s.state.Load().(string); state != Running {
		return errors.New(state)
	}
	if err := s.Ready(ctx); err != nil {
		return err
	}
	return s.checkInbound(ctx)
}

func writeJSON(w http.ResponseWriter, answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // the client may be gone
}
