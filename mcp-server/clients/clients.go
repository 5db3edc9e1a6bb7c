// Package clients knows who is connected to a server, and what each has been sent, has accepted and has refused.
package clients

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/terse"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// Roll lists the clients of a server. It is an [ads.Observer]; what else serves clients calls Join.
type Roll struct {
	mu      sync.Mutex
	clients map[*Client]struct{}
	streams map[*ads.Stream]*Client
}

// NewRoll returns a roll with nobody on it.
func NewRoll() *Roll {
	return &Roll{clients: map[*Client]struct{}{}, streams: map[*ads.Stream]*Client{}}
}

// Client is one stream of a client. It keeps numbers alone, for there may be a thousand clients of thirty types each.
type Client struct {
	roll           *Roll
	node, protocol string
	since          time.Time
	types          []typeState // few enough to be gone through, where a map would be twice the memory
}

type typeState struct {
	typeURL        string
	sent, accepted int64
	refusal        *refusal // the last, unless something was accepted since
}

type refusal struct {
	revision int64
	reason   string
}

// usualTypes are what a client of ours asks for: every kind by one name, the server's standing, and the ends of batches.
var typicalTypes = len(kinds.All()) + 2

// How much is kept of what a client says.
const (
	maxReasonBytes = 512
	maxNodeBytes   = 256
)

// Join puts a client on the roll, until it leaves.
func (r *Roll) Join(node, protocol string) *Client {
	c := &Client{roll: r, node: terse.Kept(node, maxNodeBytes), protocol: protocol, since: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients[c] = struct{}{}
	return c
}

// Leave takes the client off the roll.
func (c *Client) Leave() {
	c.roll.mu.Lock()
	defer c.roll.mu.Unlock()
	delete(c.roll.clients, c)
}

// Sent notes a response of a type.
func (c *Client) Sent(typeURL, revision string) {
	c.update(typeURL, func(s *typeState) { s.sent = number(revision) })
}

// Accepted notes that the client has what a response had.
func (c *Client) Accepted(typeURL, revision string) {
	c.update(typeURL, func(s *typeState) { s.accepted, s.refusal = number(revision), nil })
}

// Refused notes that the client has kept what it had before a response, and why.
func (c *Client) Refused(typeURL, revision, reason string) {
	c.update(typeURL, func(s *typeState) {
		s.refusal = &refusal{number(revision), terse.Kept(reason, maxReasonBytes)}
	})
}

func (c *Client) update(typeURL string, what func(*typeState)) {
	c.roll.mu.Lock()
	defer c.roll.mu.Unlock()
	if s := c.subscription(typeURL); s != nil {
		what(s)
		return
	}
	if c.types == nil {
		c.types = make([]typeState, 0, typicalTypes)
	}
	c.types = append(c.types, typeState{typeURL: typeURL})
	what(&c.types[len(c.types)-1])
}

// of returns what is noted of a type, nil if nothing is.
func (c *Client) subscription(typeURL string) *typeState {
	for i := range c.types {
		if c.types[i].typeURL == typeURL {
			return &c.types[i]
		}
	}
	return nil
}

// number is 0 for a revision that is none: it may be from another server, by way of a relay.
func number(revision string) int64 {
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// whole is the newest revision that the client is known to have whole: that of the mark, if it asks for the ends of batches; else what
// it has accepted last, or, while it has not answered to some types, the least that it has of those.
func (c *Client) completeRevision() int64 {
	if mark := c.subscription(mcpv1.BatchTypeURL); mark != nil {
		return mark.accepted
	}
	var newest int64
	behind := false
	for _, s := range c.types {
		switch late := s.accepted < s.sent; {
		case late && (!behind || s.accepted < newest):
			newest, behind = s.accepted, true
		case !late && !behind:
			newest = max(newest, s.accepted)
		}
	}
	return newest
}

// List tells of the clients, in the order of their nodes.
func (r *Roll) List() []*adminv1.ClientStatus {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := make([]*adminv1.ClientStatus, 0, len(r.clients))
	for c := range r.clients {
		list = append(list, c.status())
	}
	slices.SortFunc(list, func(a, b *adminv1.ClientStatus) int {
		return cmp.Or(cmp.Compare(a.GetNode(), b.GetNode()), a.GetSince().AsTime().Compare(b.GetSince().AsTime()))
	})
	return list
}

func (c *Client) status() *adminv1.ClientStatus {
	answer := &adminv1.ClientStatus{Node: c.node, Protocol: c.protocol, Since: timestamppb.New(c.since), Revision: c.completeRevision()}
	for _, s := range c.types {
		one := &adminv1.Subscription{Type: s.typeURL, Sent: s.sent, Accepted: s.accepted}
		if s.refusal != nil {
			one.Refused, one.Reason = s.refusal.revision, s.refusal.reason
		}
		answer.Subscriptions = append(answer.Subscriptions, one)
	}
	slices.SortFunc(answer.GetSubscriptions(), func(a, b *adminv1.Subscription) int { return cmp.Compare(a.GetType(), b.GetType()) })
	return answer
}
