package publish

import (
	"context"
	"log/slog"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// unknown is the one name under which all types that nobody registered are counted.
const unknown = "unknown"

// Canonical maps every alias of a kind to the type URL that snapshots use. Other types have nothing in them, and are answered so.
func Canonical(typeURL string) string {
	if known, ok := canonical()[typeURL]; ok {
		return known
	}
	return typeURL
}

// canonical has one copy of each type URL for all streams.
var canonical = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for _, k := range kinds.WithSecrets() {
		preferred := k.TypeURL()
		for _, alias := range k.TypeURLs() {
			all[alias] = preferred
		}
	}
	for _, ours := range []string{mcpv1.BatchTypeURL, mcpv1.StandingTypeURL} {
		all[ours] = ours
	}
	return all
})

// Label names a type in metrics.
func Label(typeURL string) string {
	if known, ok := canonical()[typeURL]; ok {
		return known
	}
	return unknown
}

// NewServer serves as MCP over xDS the snapshots that open returns for the caller of a context.
func NewServer(open func(context.Context) (*ads.Subscriber, error), within Within, observer ads.Observer, log *slog.Logger) *ads.Server {
	return ads.NewServer(ads.Config{
		Limits: within.Limits, Budgets: within.Budgets, Reader: within.Reader,
		Open:       func(ctx context.Context, _ *corev3.Node, _ bool) (*ads.Subscriber, error) { return open(ctx) },
		Canonical:  Canonical,
		Plan:       batches,
		Identifier: mcpv1.Identifier + "/mcp-server",
		MostBytes:  mostBytes,
		Observer:   observer,
		Log:        log,
	})
}

// Within is what readers may take.
type Within struct {
	Limits  ads.Limits
	Budgets *ads.Budgets                 // nil is those of the limits
	Reader  func(context.Context) string // names whose a stream is; nil is where it comes from
}

// mostBytes bounds the messages to incremental clients: a client decodes one while the next is on its way, and neither end needs memory
// for all at once.
const mostBytes = 256 << 10

// batches is followed by clients that ask for the ends of batches: everything that a revision changed, in any order, and then
// its end. The next batch begins when the client has applied this one. Other clients get each type as soon as they can take it.
var batches = ads.Plan{
	When: mcpv1.BatchTypeURL,
	Stages: []ads.Stage{
		{Part: ads.Whole, Overlap: true},
		{Types: []string{mcpv1.BatchTypeURL}, Part: ads.Whole},
	},
}
