package client

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Garbage is an answer that is none of Consul's.
type Garbage struct{ reason error }

func (g *Garbage) Error() string { return g.reason.Error() }

func (g *Garbage) Unwrap() error { return g.reason }

// Refusal is an answer that is an error.
type Refusal struct {
	Status int
	what   string
}

func (r *Refusal) Error() string { return r.what }

// Concerns reports whether the refusal is about what was asked for, and not about who asks, or about
// Consul as a whole.
func (r *Refusal) Concerns() bool {
	return r.Status == http.StatusBadRequest || r.Status == http.StatusNotFound || r.Status == http.StatusRequestURITooLong
}

// Crowded reports whether there are too many connections from this machine.
func (r *Refusal) Crowded() bool { return r.Status == http.StatusTooManyRequests }

// mostReason bounds what is read of an error.
const mostReason = 512

func refusalOf(response *http.Response, path, rights string) error {
	reason, _ := io.ReadAll(io.LimitReader(response.Body, mostReason)) // what came of it is said
	text := fmt.Sprintf("Consul answers %s to %s: %s", response.Status, path, strings.TrimSpace(string(reason)))
	switch {
	case response.StatusCode == http.StatusForbidden:
		text += ": " + rights
	case response.StatusCode == http.StatusInternalServerError && strings.Contains(string(reason), "No path to datacenter"):
		text += ": is dc right? /v1/catalog/datacenters lists them"
	case response.StatusCode == http.StatusTooManyRequests:
		text += ": limits.http_max_conns_per_client of its agent is how many there may be"
	}
	return &Refusal{response.StatusCode, text}
}
