package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Garbage is an answer that is none of Kubernetes'.
type Garbage struct{ reason error }

func (g *Garbage) Error() string { return "the answer cannot be read: " + g.reason.Error() }

func (g *Garbage) Unwrap() error { return g.reason }

// Refusal is an answer that is an error.
type Refusal struct {
	Code int
	what string
}

func (r *Refusal) Error() string { return r.what }

// Forbidden reports whether whoever asks may not read this, and may read other things.
func (r *Refusal) Forbidden() bool { return r.Code == http.StatusForbidden }

// Missing reports whether there is no such thing to read.
func (r *Refusal) Missing() bool { return r.Code == http.StatusNotFound }

// Broken reports whether the server has failed at this, as where what converts a kind's objects does
// not answer.
func (r *Refusal) Broken() bool { return r.Code == http.StatusInternalServerError }

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

// mostReason bounds what is read of an error, and what is said of it.
const (
	mostReason = 64 << 10
	mostSaid   = 400
)

func refusalOf(code int, line string, body io.Reader) error {
	text, _ := io.ReadAll(io.LimitReader(body, mostReason)) // what came of it is said
	said := strings.TrimSpace(string(text))
	var s status
	if json.Unmarshal(text, &s) == nil && s.Kind == "Status" {
		said = s.Message
	}
	return refused(code, line, said)
}

func refused(code int, line, said string) error {
	if len(said) > mostSaid {
		said = strings.ToValidUTF8(said[:mostSaid], "") + "…"
	}
	what := fmt.Sprintf("Kubernetes answers %s: %s", line, said)
	switch code {
	case http.StatusUnauthorized:
		what += ": it does not know whose token or certificate this is, or it has expired"
	case http.StatusForbidden:
		what += ": grant list and watch of it, as docs/kubernetes.md shows"
	}
	return &Refusal{Code: code, what: what}
}

// Unreadable is the error of what cannot be read.
func Unreadable(reason error) error { return &Garbage{reason} }
