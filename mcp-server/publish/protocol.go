package publish

import (
	"context"
	"log/slog"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// unknown is the metric label of all types that are not registered.
const unknown = "unknown"

// Canonical maps every alias of a kind to the type URL in snapshots. Other types are unchanged, and
// served empty.
func Canonical(typeURL string) string {
	if known, ok := canonical()[typeURL]; ok {
		return known
	}
	return typeURL
}

// canonical indexes the type URLs, once for all streams.
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

// Label returns the name of a type in metrics.
func Label(typeURL string) string {
	if known, ok := canonical()[typeURL]; ok {
		return known
	}
	return unknown
}

// NewServer returns a server that serves MCP over xDS, from the snapshots that open returns for the
// caller.
func NewServer(open func(context.Context) (*served.Subscriber, error), within Within, observer ads.Observer, log *slog.Logger) *ads.Server {
	return ads.NewServer(ads.Config{
		Limits: within.Limits, Budgets: within.Budgets, Reader: within.Reader,
		Open:       func(ctx context.Context, _ *corev3.Node, _ bool) (*served.Subscriber, error) { return open(ctx) },
		Canonical:  Canonical,
		Plan:       batchPlan,
		Identifier: mcpv1.Identifier + "/mcp-server",
		MostBytes:  maxMessageBytes,
		Observer:   observer,
		Log:        log,
	})
}

// Within limits what readers may take.
type Within struct {
	Limits  ads.Limits
	Budgets *ads.Budgets                 // nil means those of Limits
	Reader  func(context.Context) string // names a stream's reader; nil means the peer's address
}

// maxMessageBytes bounds messages to incremental clients. A client decodes one message while the
// next is on its way, and neither end holds everything in memory at once.
const maxMessageBytes = 256 << 10

// batchPlan applies to clients that subscribe to the ends of batches. They get everything that a
// revision changed, in any order, and then its end; the next batch starts once the client has
// applied this one. Other clients get each type as soon as they can take it.
var batchPlan = ads.Plan{
	When: mcpv1.BatchTypeURL,
	Stages: []ads.Stage{
		{Part: ads.Whole, Overlap: true},
		{Types: []string{mcpv1.BatchTypeURL}, Part: ads.Whole},
	},
}
