package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
)

// handleOrders registers the endpoints that tell the agent to do something.
func (s *Server) handleOrders(mux *http.ServeMux) {
	mux.HandleFunc("GET /drain", s.serveDrainStatus)
	mux.HandleFunc("GET /drain/alone", func(w http.ResponseWriter, r *http.Request) { writeJSON(w, s.alone(r.Context())) })
	mux.HandleFunc("POST /drain", s.order(s.drain))
	mux.HandleFunc("POST /undrain", s.serveUndrain)
	mux.HandleFunc("POST /quitquitquit", func(w http.ResponseWriter, _ *http.Request) {
		s.Log.Info("asked to end over HTTP")
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintln(w, "ending")
		s.Stop()
	})
}

// Rejoined is how an agent has taken up that its machine joined again.
type Rejoined struct {
	PID int `json:"pid"`
	// Anew means that the agent starts anew, within its process, to be who the machine is now.
	Anew bool `json:"anew"`
}

func (s *Server) serveRejoin(w http.ResponseWriter, _ *http.Request) {
	r, err := s.Rejoin()
	if err != nil {
		http.Error(w, err.Error(), http.StatusConflict)
		return
	}
	r.PID = os.Getpid()
	writeJSON(w, r)
	if r.Anew {
		_ = http.NewResponseController(w).Flush() // the answer goes before the program that gives it
		s.Reload()
	}
}

// order does something about the drain, and answers how that stands then. It finishes even if the
// caller goes away.
func (s *Server) order(do func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), drainTimeout)
		defer cancel()
		if err := do(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s.serveDrainStatus(w, r)
	}
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
	w.Header().Set("Content-Length", strconv.Itoa(len(text)+1)) // so that the answer is whole once it is flushed
	_, _ = w.Write(append(text, '\n'))                          // the client may be gone
}
