package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/mcp-server/legacy"
)

// Legacy says how the first generation of MCP is served.
type Legacy struct {
	MaxMessage int // bytes
}

// Flags declares the flags of the first generation.
func (l *Legacy) Flags(f *pflag.FlagSet) {
	f.IntVar(&l.MaxMessage, "legacy-max-message", legacy.MaxMessage,
		"for Istio 1.0 to 1.8: how many bytes a message to a sink may have. What does not fit is reported and not sent, for a Pilot would end the stream over it")
}

// leastMessage holds any resource of usual size.
const leastMessage = 64 << 10

func (l *Legacy) check() error {
	if l.MaxMessage != 0 && l.MaxMessage < leastMessage {
		return fmt.Errorf("--legacy-max-message %d: hardly a resource would fit; choose at least %d", l.MaxMessage, leastMessage)
	}
	return nil
}

// newLegacy returns the service for sinks of the first generation.
func (s *server) newLegacy() *legacy.Source {
	return legacy.NewSource(legacy.Config{
		Open:       func(context.Context) (*ads.Subscriber, error) { return s.publisher.Subscribe(), nil },
		MaxMessage: s.options.Legacy.MaxMessage, Metrics: s.metrics, Log: s.options.Log,
	})
}

// sinksHandler tells in JSON of the streams to sinks.
type sinksHandler struct{ source *legacy.Source }

func (h sinksHandler) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	told := struct {
		Streams []legacy.Stream `json:"streams"`
	}{h.source.Streams()}
	w.Header().Set("Content-Type", "application/json")
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	_ = out.Encode(told) // whoever asked may have gone
}
