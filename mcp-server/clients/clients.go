// Package clients tracks who is connected to a server, and what each client was sent, accepted and
// refused.
package clients

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/kit/terse"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// Roll tracks the clients of a server. It is an [ads.Observer]; servers of other protocols call
// Join.
type Roll struct {
	// Follower is told of all clients, if it is not nil. Set it before anything else.
	Follower Follower

	mu      sync.Mutex
	clients map[*Client]struct{}
	streams map[*ads.Stream]*Client
}

// Follower is told what clients are sent and answer. Its methods must not block.
type Follower interface {
	Sent(c *Client, typeURL string, revision int64)
	Accepted(c *Client, typeURL string, revision int64)
	Refused(c *Client, typeURL string, revision int64, reason string)
	Left(c *Client)
}

// NewRoll returns an empty roll.
func NewRoll() *Roll {
	return &Roll{clients: map[*Client]struct{}{}, streams: map[*ads.Stream]*Client{}}
}

// Client is one stream of a client. It keeps only numbers, because there may be a thousand clients
// of thirty types each.
type Client struct {
	roll           *Roll
	node, protocol string
	since          time.Time
	types          []typeState // a short slice: a map would take twice the memory
}

// typeState is how far a client has come with one type.
type typeState struct {
	typeURL        string
	sent, accepted int64
	refusal        *refusal // nil once something newer was accepted
}

type refusal struct {
	revision int64
	reason   string
}

// typicalTypes is the number of types that our own client asks for: every kind under one name, the
// server's state, and the ends of batches.
var typicalTypes = len(kinds.All()) + 2

// Bounds on what is kept of a client's own words.
const (
	maxReasonBytes = 512
	maxNodeBytes   = 256
)

// Join adds a client, until it calls Leave.
func (r *Roll) Join(node, protocol string) *Client {
	c := &Client{roll: r, node: terse.Kept(node, maxNodeBytes), protocol: protocol, since: time.Now()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients[c] = struct{}{}
	return c
}

// Node is the name that the client gives itself.
func (c *Client) Node() string { return c.node }

// Protocol is the form of the protocol that the client speaks.
func (c *Client) Protocol() string { return c.protocol }

// Leave removes the client.
func (c *Client) Leave() {
	if f := c.roll.Follower; f != nil {
		f.Left(c)
	}
	c.roll.mu.Lock()
	defer c.roll.mu.Unlock()
	delete(c.roll.clients, c)
}

// Sent records a response of a type.
func (c *Client) Sent(typeURL, revision string) {
	c.update(typeURL, func(s *typeState) { s.sent = number(revision) })
	if f := c.roll.Follower; f != nil {
		f.Sent(c, typeURL, number(revision))
	}
}

// Accepted records that the client accepted a response.
func (c *Client) Accepted(typeURL, revision string) {
	c.update(typeURL, func(s *typeState) { s.accepted, s.refusal = number(revision), nil })
	if f := c.roll.Follower; f != nil {
		f.Accepted(c, typeURL, number(revision))
	}
}

// Refused records that the client refused a response and kept what it had, and why.
func (c *Client) Refused(typeURL, revision, reason string) {
	c.update(typeURL, func(s *typeState) {
		s.refusal = &refusal{number(revision), terse.Kept(reason, maxReasonBytes)}
	})
	if f := c.roll.Follower; f != nil {
		f.Refused(c, typeURL, number(revision), terse.Kept(reason, maxReasonBytes))
	}
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

// subscription returns what is tracked of a type; nil if nothing is.
func (c *Client) subscription(typeURL string) *typeState {
	for i := range c.types {
		if c.types[i].typeURL == typeURL {
			return &c.types[i]
		}
	}
	return nil
}

// number parses a revision; 0 if it is no number, as one may be that another server gave and a
// relay passed on.
func number(revision string) int64 {
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// completeRevision returns the newest revision that the client is known to have completely. A
// client that subscribes to the ends of batches has that of its last accepted mark. Otherwise it is
// the revision accepted last or, while responses of some types are unanswered, the lowest accepted
// of those types.
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

// List returns the clients, sorted by node.
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
