package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Drainage is how far an agent has come that drains.
type Drainage struct {
	State       string `json:"state"`
	Connections int    `json:"connections"` // that clients have open
	Trouble     string `json:"trouble,omitempty"`
}

// drainWithin is how long it may take to leave the mesh and to tell Envoy.
const drainWithin = 30 * time.Second

// handleOrders has the agent do what people and machines may tell it.
func (s *Server) handleOrders(mux *http.ServeMux) {
	mux.HandleFunc("GET /drain", s.serveDrainage)
	mux.HandleFunc("POST /drain", func(w http.ResponseWriter, r *http.Request) {
		// Who asked may go away; what has begun is done nevertheless.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), drainWithin)
		defer cancel()
		if err := s.drain(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s.serveDrainage(w, r)
	})
	mux.HandleFunc("POST /quitquitquit", func(w http.ResponseWriter, _ *http.Request) {
		s.Log.Info("asked to end over HTTP")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintln(w, "ending")
		s.Stop()
	})
}

// drain has the mesh leave this machine alone, and then clients that are connected. It may be asked for again if it failed.
func (s *Server) drain(ctx context.Context) error {
	s.draining.Lock()
	defer s.draining.Unlock()
	if s.state.Load() != Running {
		return nil
	}
	if s.Leave != nil {
		if err := s.Leave(ctx); err != nil {
			return fmt.Errorf("leave the registry: %w; nothing was drained: try again", err)
		}
	}
	if err := s.Drain(ctx); err != nil {
		return fmt.Errorf("drain Envoy: %w; this machine has left the registry already: try again", err)
	}
	s.state.CompareAndSwap(Running, Draining)
	s.Log.Info("drained: nothing new is sent here, and what is open may finish; Envoy goes on until the agent ends")
	return nil
}

func (s *Server) serveDrainage(w http.ResponseWriter, r *http.Request) {
	d := Drainage{State: s.state.Load().(string)}
	open, err := s.Envoy.Downstream(r.Context())
	if d.Connections = open.Connections; err != nil {
		d.Trouble = err.Error()
	}
	writeJSON(w, d)
}

// ready tells whether this machine is to be sent anything.
func (s *Server) ready(ctx context.Context) error {
	if state := s.state.Load().(string); state != Running {
		return errors.New(state)
	}
	if err := s.Ready(ctx); err != nil {
		return err
	}
	return s.inbound(ctx)
}

func writeJSON(w http.ResponseWriter, answer any) {
	text, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n')) // whoever asked may be gone
}
