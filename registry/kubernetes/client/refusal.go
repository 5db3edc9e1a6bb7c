package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/registry/kubernetes/wire"
)

// Garbage is an answer that is none of Kubernetes'.
type Garbage struct{ reason error }

func (g *Garbage) Error() string { return "the answer cannot be read: " + g.reason.Error() }

func (g *Garbage) Unwrap() error { return g.reason }

// Refusal is an answer that is an error.
type Refusal struct {
	Code int
	// After is how long the server asks to wait before the next question; 0 if it does not.
	After time.Duration
	what  string
}

func (r *Refusal) Error() string { return r.what }

// Forbidden reports whether whoever asks may not read this, and may read other things.
func (r *Refusal) Forbidden() bool { return r.Code == http.StatusForbidden }

// Missing reports whether there is no such thing to read.
func (r *Refusal) Missing() bool { return r.Code == http.StatusNotFound }

// Broken reports whether the server has failed at this, as where what converts a kind's objects does
// not answer.
func (r *Refusal) Broken() bool { return r.Code == http.StatusInternalServerError }

// Conflict reports whether a change was made to a version that is not the newest.
func (r *Refusal) Conflict() bool { return r.Code == http.StatusConflict }

// Invalid reports whether the server takes what it was sent for wrong.
func (r *Refusal) Invalid() bool {
	return r.Code == http.StatusUnprocessableEntity || r.Code == http.StatusBadRequest
}

// Outdated reports whether the version to follow from is too old, or one that the server has not
// reached, as after a backup was restored: all has to be read again.
func (r *Refusal) Outdated() bool {
	return r.Code == http.StatusGone || r.Code == http.StatusGatewayTimeout && strings.Contains(r.what, "resource version")
}

// status is what Kubernetes says of an error.
type status struct {
	Kind    string `json:"kind"`
	Code    int    `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// statusOf reads a status, if it is one.
func statusOf(sent []byte, compact bool) (s status, is bool) {
	if !compact {
		return s, json.Unmarshal(sent, &s) == nil && s.Kind == "Status"
	}
	kind, message, err := wire.Object(sent)
	m := wire.Read(message)
	for m.Next() {
		switch m.Field() {
		case 3:
			s.Message = m.Text()
		case 4:
			s.Reason = m.Text()
		case 6:
			s.Code = int(m.Number())
		}
	}
	return s, err == nil && m.Err() == nil && kind == "Status"
}

// mostReason bounds what is read of an error, and what is said of it.
const (
	mostReason = 64 << 10
	mostSaid   = 400
)

func refusalOf(response *http.Response, q question, body io.Reader) error {
	text, _ := io.ReadAll(io.LimitReader(body, mostReason)) // what came of it is said
	said := strings.TrimSpace(string(text))
	if s, is := statusOf(text, isCompact(response)); is {
		said = s.Message
	}
	refusal := refused(response.StatusCode, response.Status, said)
	if seconds, err := strconv.ParseUint(response.Header.Get("Retry-After"), 10, 16); err == nil {
		refusal.After = time.Duration(seconds) * time.Second
	}
	if refusal.Forbidden() && q.patch == nil { // who patches says more
		refusal.what += ": grant list and watch of it, as docs/kubernetes.md shows"
	}
	return refusal
}

func refused(code int, line, said string) *Refusal {
	if len(said) > mostSaid {
		said = strings.ToValidUTF8(said[:mostSaid], "") + "…"
	}
	what := fmt.Sprintf("Kubernetes answers %s: %s", line, said)
	if code == http.StatusUnauthorized {
		what += ": it does not know whose token or certificate this is, or it has expired"
	}
	return &Refusal{Code: code, what: what}
}

// Unreadable is the error of what cannot be read.
func Unreadable(reason error) error { return &Garbage{reason} }
