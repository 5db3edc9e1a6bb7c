package push

import (
	"log/slog"

	"github.com/pgmesh/pgmesh/internal/ads"
)

// NewServer serves the engine's classes to Envoys.
func NewServer(e *Engine, observer ads.Observer, log *slog.Logger) *ads.Server {
	return ads.NewServer(ads.Config{
		Open: e.Open,
		Named: func(typeURL string) bool {
			return typeURL != ClusterType && typeURL != ListenerType && typeURL != NameTableType
		},
		Plan:       makeBeforeBreak,
		Absent:     e.absent,
		Dropped:    e.dropped,
		Identifier: "pgmesh/discovery",
		Observer:   observer,
		Log:        log,
	})
}

// makeBeforeBreak is the order in which no request is lost: what a route will point at is there, with its endpoints, before the
// route changes, and what it pointed at goes only after Envoy has taken the change.
var makeBeforeBreak = ads.Plan{Stages: []ads.Stage{
	{Types: []string{ClusterType, EndpointType}, Part: ads.Make},
	{Types: []string{ExtensionType, ListenerType}, Part: ads.Make, Overlap: true},
	{Types: []string{RouteType}, Part: ads.Whole},
	{Types: []string{ListenerType}, Part: ads.Break},
	{Types: []string{ExtensionType}, Part: ads.Break, Overlap: true},
	{Types: []string{ClusterType, EndpointType}, Part: ads.Break, Overlap: true},
}}

// Label names a type in metrics.
func Label(typeURL string) string {
	for _, p := range parts {
		if p.typeURL == typeURL {
			return typeURL[len(typePrefix):]
		}
	}
	return "unknown"
}
