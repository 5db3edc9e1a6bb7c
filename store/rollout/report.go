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
	Number   int64 // counted from 1
	Revision int64 // what all proxies run that are in step
	Proxies  []Proxy
	Gone     []uint64 // streams
}

// Proxy is the state of a proxy.
type Proxy struct {
	Stream uint64
	*Description
	State      string
	Sent, Runs int64 // 0 for none yet; if it is in step, what the message says
	Refused    uint32
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
	rows := make([]row, len(m.Proxies))
	for i, p := range m.Proxies {
		rows[i] = rowOf(p)
	}
	proxies, err := json.Marshal(rows)
	if err != nil {
		return store.Explain("reporting proxies", err)
	}
	gone := make([]int64, len(m.Gone))
	for i, stream := range m.Gone {
		gone[i] = int64(min(stream, math.MaxInt64))
	}
	_, err = k.db.Pool().Exec(ctx, sql.Take, k.id, id, m.Number, m.Revision, proxies, gone)
	return explain("reporting proxies", err)
}

func (m Message) check() error {
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
		case p.Sent < 0 || p.Runs < 0:
			return &store.InvalidError{Reason: fmt.Sprintf("stream %d: there are no revisions below 0", p.Stream), Advice: "0 is none yet"}
		}
		seen[p.Stream] = true
	}
	return nil
}
