package sts

import (
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net"
	"net/http"
	"time"

	"github.com/pgmesh/pgmesh/internal/listen"
)

// maxForm bounds a form; tokens have a few kilobytes.
const maxForm = 256 << 10

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+Path, s.token)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		status := http.StatusNotFound
		if r.URL.Path == Path {
			status = http.StatusMethodNotAllowed
		}
		s.refuse(w, &refusal{status: status, Code: invalidRequest, Description: "tokens are exchanged by POST " + Path})
	})
	return mux
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	if err := fromProgram(r); err != nil {
		s.refuse(w, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		s.refuse(w, invalid("the form cannot be read, or is longer than %d kB", maxForm>>10))
		return
	}
	e, err := s.parseForm(r.PostForm)
	if err != nil {
		s.refuse(w, err)
		return
	}
	a, outcome, err := s.exchange(r.Context(), e)
	if err != nil {
		s.refuse(w, err)
		return
	}
	s.metrics.requests.WithLabelValues(outcome).Inc()
	respond(w, http.StatusOK, a.fieldsAt(time.Now()))
}

// fromProgram rejects requests from browsers, so that web pages cannot use the machine's identity.
// A page can send a form to any address, but the browser adds its origin, and the host is checked
// against DNS rebinding.
func fromProgram(r *http.Request) error {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch {
	case err != nil || kind != "application/x-www-form-urlencoded":
		return invalid("the request has to be a form: Content-Type: application/x-www-form-urlencoded")
	case r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "":
		return &refusal{status: http.StatusForbidden, Code: invalidRequest, Description: "tokens are exchanged for programs, not for pages in a browser"}
	case !listen.Loopback(withPort(r.Host)):
		return &refusal{status: http.StatusForbidden, Code: invalidRequest, Description: "the host of the request has to be localhost, or an address of loopback"}
	case r.URL.RawQuery != "":
		return invalid("parameters belong in the form, not in the URL, which is logged")
	}
	return nil
}

func withPort(host string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(host, "80")
}

// exchange returns a cached token, or requests one, once for all equal concurrent requests.
func (s *Server) exchange(ctx context.Context, e *exchange) (a *answer, outcome string, err error) {
	key := e.key(s.certificate().Certificate)
	if a := s.cache.get(key, time.Now()); a != nil {
		return a, "remembered", nil
	}
	flight := s.flights.DoChan(key, func() (any, error) {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		default:
			return nil, &refusal{status: http.StatusServiceUnavailable, Code: unavailable, Description: "too many exchanges at once"}
		}
		a, err := s.requestToken(context.WithoutCancel(ctx), e) // others may wait for the same
		if err != nil {
			return nil, err
		}
		s.cache.put(key, a, time.Now())
		return a, nil
	})
	select {
	case landed := <-flight:
		if landed.Err != nil {
			return nil, "", landed.Err
		}
		return landed.Val.(*answer), "exchanged", nil
	case <-ctx.Done():
		return nil, "", ctx.Err()
	}
}

func (s *Server) refuse(w http.ResponseWriter, err error) {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{status: http.StatusInternalServerError, Code: serverError, Description: "the exchange failed"}
	}
	outcome := "refused"
	if r.status >= http.StatusInternalServerError {
		outcome = "failed"
	}
	s.metrics.requests.WithLabelValues(outcome).Inc()
	respond(w, r.status, r)
}

func respond(w http.ResponseWriter, status int, body any) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store") // RFC 6749, 5.1
	header.Set("Pragma", "no-cache")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) //nolint:errchkjson // who is gone needs none
}
