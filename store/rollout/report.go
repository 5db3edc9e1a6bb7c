package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pgmesh/pgmesh/store"
)

// Message is what differs from the messages before it in a report.
type Message struct {
	Number    int64 // counted from 1
	Revision  int64 // what all proxies run that are in step
	Proxies   []Proxy
	Gone      []uint64 // streams
	Rollouts  []Rollout
	Audiences []Audience
	Push      uint64 // what all proxies run that are in step; 0 if the discovery does not count pushes
	Versions  []Version
	Statuses  []Decided
	Problems  *[]Problem // all that there are; nil if they are as before
	Times     *Times     // nil if they are as before
}

// Proxy is the state of a proxy.
type Proxy struct {
	Stream uint64
	*Description
	State      string
	Sent, Runs int64 // 0 for none yet; if it is in step, what the message says
	Refused    uint32
	Refusals   []Refusal
	Push       uint64 // 0 for none, or if the discovery does not count them
	Circle     uint32 // the same resources concern all proxies of a circle
}

// The states of a proxy.
const (
	Synced  = "synced" // in step
	Sending = "sending"
	Refused = "refused"
	Silent  = "silent"
	Away    = "away" // shown, never reported
)

// Description is who a proxy is. The first message that has its stream has one.
type Description struct {
	Node           string            `json:"node"`
	Proxy          string            `json:"proxy"`
	Namespace      string            `json:"namespace"`
	ServiceAccount string            `json:"service_account"`
	Role           string            `json:"role"`
	Labels         map[string]string `json:"labels"`
	Locality       string            `json:"locality"`
	Network        string            `json:"network"`
	Addresses      []string          `json:"addresses"`
	Envoy          string            `json:"envoy"`
	Agent          string            `json:"agent"`
	Protocol       string            `json:"protocol"`
	Connected      time.Time         `json:"connected"`

	CertificateEnds *time.Time `json:"certificate_ends"` // nil without a certificate
}

// Report takes one message of a report, as one transaction. One that was taken already changes
// nothing. ErrEnded says that the report counts no more, and *store.InvalidError that the message
// can never be taken.
func (k *Keeper) Report(ctx context.Context, id int64, m Message) error {
	ctx, cancel := context.WithTimeout(ctx, store.QueryTimeout)
	defer cancel()
	if err := m.check(); err != nil {
		return err
	}
	args, err := m.args()
	if err != nil {
		return err
	}
	_, err = k.db.Pool().Exec(ctx, sql.Take, append([]any{k.id, id}, args...)...)
	return explain("reporting proxies", err)
}

// args are the parameters of the query that takes the message.
func (m Message) args() ([]any, error) {
	rows := make([]row, len(m.Proxies))
	for i, p := range m.Proxies {
		rows[i] = rowOf(p)
	}
	proxies, err := json.Marshal(rows)
	if err != nil {
		return nil, store.Explain("reporting proxies", err)
	}
	rollouts, err := rolloutRows(m.Rollouts)
	if err != nil {
		return nil, err
	}
	audiences, err := audienceRows(m.Audiences)
	if err != nil {
		return nil, err
	}
	problems, err := problemRows(m.Problems)
	if err != nil {
		return nil, err
	}
	versions, err := versionRows(m.Versions)
	if err != nil {
		return nil, err
	}
	statuses, err := decidedRows(m.Statuses)
	if err != nil {
		return nil, err
	}
	streams, took := m.Times.columns()
	return []any{m.Number, m.Revision, proxies, signed(m.Gone), rollouts, audiences, problems, streams, took, int64(m.Push), versions, statuses}, nil
}

// signed converts numbers of streams, or of microseconds, to what Postgres has.
func signed(all []uint64) []int64 {
	converted := make([]int64, len(all))
	for i, n := range all {
		converted[i] = int64(min(n, math.MaxInt64))
	}
	return converted
}

func (m Message) check() error {
	if m.Push > math.MaxInt64 {
		return &store.InvalidError{Reason: fmt.Sprintf("there is no push %d", m.Push), Advice: "pushes are counted from 1"}
	}
	if m.Number < 1 || m.Revision < 0 {
		return &store.InvalidError{Reason: fmt.Sprintf("a report has no message %d of revision %d", m.Number, m.Revision), Advice: "messages are counted from 1, and revisions from 0"}
	}
	seen := make(map[uint64]bool, len(m.Proxies))
	for _, p := range m.Proxies {
		switch {
		case p.Stream > math.MaxInt64 || seen[p.Stream]:
			return &store.InvalidError{Reason: fmt.Sprintf("stream %d is there twice, or is none", p.Stream), Advice: "name each stream once in a message"}
		case !slices.Contains([]string{Synced, Sending, Refused, Silent}, p.State):
			return &store.InvalidError{Reason: fmt.Sprintf("stream %d: %.100q is not a state", p.Stream, p.State), Advice: "it is synced, sending, refused or silent"}
		case p.Push > math.MaxInt64:
			return &store.InvalidError{Reason: fmt.Sprintf("stream %d: there is no push %d", p.Stream, p.Push), Advice: "pushes are counted from 1"}
		case p.Sent < 0 || p.Runs < 0:
			return &store.InvalidError{Reason: fmt.Sprintf("stream %d: there are no revisions below 0", p.Stream), Advice: "0 is none yet"}
		}
		seen[p.Stream] = true
	}
	return m.Times.check()
}
