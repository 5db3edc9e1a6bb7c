package ads

import (
	"context"
	"log/slog"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/limits"
)

// Config says what a Server serves and how.
type Config struct {
	// Open is called with the node of a stream's first request and whether the client speaks delta.
	// It returns the source of the stream's snapshots. Its error ends the stream and should carry a
	// gRPC status.
	Open func(ctx context.Context, node *corev3.Node, incremental bool) (*served.Subscriber, error)

	// Reader returns the reader that a stream's requests are counted against. Nil means the address
	// it comes from.
	Reader func(context.Context) string

	// Canonical maps a requested type URL to the one that snapshots use. Responses always carry the
	// requested one. Nil means that there are no aliases.
	Canonical func(typeURL string) string

	// Named reports whether a state-of-the-world client must name the resources it wants of a type.
	// For these types no names means nothing; for all others it means everything.
	Named func(typeURL string) bool

	// Belongs maps a canonical type to the type that owns its resources. An owned resource's name
	// is its owner's name, a slash, and a name without slashes. A delta client is sent what belongs
	// to a resource after it has accepted that resource, and again when it asks for that resource
	// again.
	Belongs map[string]string

	// Outlive reports whether a client keeps owned resources of a type when everything with that
	// owner is gone. The owner's name is what comes before the last slash. The client may still use
	// them where nobody sees it, and unsubscribes when it no longer does. If something with that
	// owner returns, what the client has left is updated. It is for delta clients. Nil means no
	// type.
	Outlive func(typeURL string) bool

	// Sticks has, by canonical type, types whose clients may keep using a resource that they have
	// refused. Such a client is sent again what it accepted last, or told to remove the resource if
	// it has accepted none. Then it is sent again what it refuses of the type that Sticks names: it
	// may have refused that because of what has stuck.
	Sticks map[string]string

	// Asked is called with the names that a delta client asks for, before it is sent any of them.
	// It is also called with the first request for a type, even one without names, with the
	// versions that the client has from an earlier stream. It may be nil.
	Asked func(s *Stream, typeURL string, names []string, held map[string]string)

	// Absent is called for each name that a client asks for and that does not exist. It must not
	// block. It may be nil.
	Absent func(s *Stream, typeURL, name string)

	// Taken is called for each name that a client asks for, and had, and that no longer exists for it.
	// It must not block. It may be nil.
	Taken func(s *Stream, typeURL, name string)

	// Void makes what stands for a resource that does not exist, and that a state-of-the-world client
	// waits for because something refers to it. Nil, or a nil result, means that nothing does.
	Void func(typeURL, name string) *served.Resource

	// Dropped is called for each name that a client has asked for and no longer wants. It must not
	// block. It may be nil.
	Dropped func(s *Stream, typeURL, name string)

	// Quarantine finds out which resources of a refused response the client refuses, and delivers
	// all others. It is for clients that refuse a response wholly or in unknown parts.
	Quarantine bool

	// Plan is the order in which the parts of a change travel. If Plan.When is set, a stream
	// follows the plan only while it is subscribed to that type. Without a plan, each type travels
	// as soon as it can.
	Plan Plan

	// Essential are canonical types without which a client runs nothing: until it has asked for them
	// it is not said to run a snapshot.
	Essential []string

	// Identifier is sent as the control plane's identifier in each response.
	Identifier string

	// MostBytes bounds the messages to a delta client: a larger response is sent in several
	// messages, and the client answers the last. 0 means no bound, for clients that take the first
	// message for the whole response.
	MostBytes int

	// Patience bounds how long a stage of a plan may hold back the following stages.
	Patience time.Duration

	Limits Limits
	// Budgets are the budgets of the limits, if several servers share them. Nil makes new ones for
	// this server.
	Budgets *Budgets

	Observer Observer
	// Called is what the log calls clients; "client" if it is empty.
	Called string
	Log    *slog.Logger
}

const defaultPatience = 3 * time.Second

func (c *Config) setDefaults() {
	if c.Canonical == nil {
		c.Canonical = func(typeURL string) string { return typeURL }
	}
	if c.Reader == nil {
		c.Reader = limits.Origin
	}
	if c.Named == nil {
		c.Named = func(string) bool { return false }
	}
	if c.Outlive == nil {
		c.Outlive = func(string) bool { return false }
	}
	if c.Patience == 0 {
		c.Patience = defaultPatience
	}
	if c.Observer == nil {
		c.Observer = silent{}
	}
	if c.Budgets == nil {
		c.Budgets = c.Limits.Budgets(c.Observer)
	}
	if c.Called == "" {
		c.Called = "client"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}
