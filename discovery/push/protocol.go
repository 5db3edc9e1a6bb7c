package push

import (
	"log/slog"
	"slices"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// NewServer serves the engine's classes to Envoys. The observer may be nil.
func NewServer(e *Engine, limits ads.Limits, observer ads.Observer, log *slog.Logger) *ads.Server {
	observers := ads.Observers{e.answers}
	if observer != nil {
		observers = append(observers, observer)
	}
	return ads.NewServer(ads.Config{
		Open: e.Open,
		Named: func(typeURL string) bool {
			return typeURL != ClusterType && typeURL != ListenerType && typeURL != ScopedRouteType && typeURL != NameTableType
		},
		Called:     "proxy",
		Quarantine: true,
		Belongs:    map[string]string{VirtualHostType: RouteType},
		Outlive:    func(typeURL string) bool { return typeURL == ScopedRouteType },
		// New listeners of an Envoy are given what it has refused for those that it has.
		Sticks:    map[string]string{ExtensionType: ListenerType},
		Plan:      makeBeforeBreak,
		Essential: []string{ListenerType}, // which Envoy asks for last, of those that lead to others
		Asked:     e.asked,
		Absent:    e.absent,
		Taken:     e.taken,
		Void:      noEndpoints,
		Dropped: func(s *ads.Stream, typeURL, name string) {
			e.dropped(s, typeURL, name)
			e.unasked(s, typeURL, name)
		},
		Identifier: "pgmesh/discovery",
		Limits:     limits,
		Observer:   observers,
		Log:        log,
	})
}

// noEndpoints stands for the endpoints of a cluster that has gone.
func noEndpoints(typeURL, name string) *served.Resource {
	if typeURL != EndpointType {
		return nil
	}
	body, err := anypb.New(&endpointv3.ClusterLoadAssignment{ClusterName: name})
	if err != nil {
		return nil // which no name makes
	}
	return &served.Resource{Name: name, Version: "none", Body: body}
}

// makeBeforeBreak is the order that loses no request. What a route will lead to is there, with its
// endpoints, before the route changes. What it led to goes only after Envoy has accepted the
// change.
//
// Envoy applies endpoints before it reads on, and then uses the cluster, whose answer has come by
// then. So the route need not wait for the answer about endpoints too: each wait costs every proxy
// a turn, a third of what a new service takes.
var makeBeforeBreak = ads.Plan{Stages: []ads.Stage{
	{Types: []string{ClusterType, EndpointType}, Part: ads.Make, AtOnce: []string{EndpointType}},
	{Types: []string{ScopedRouteType}, Part: ads.Make},
	{Types: []string{ExtensionType, ListenerType}, Part: ads.Make, Overlap: true},
	{Types: []string{RouteType, VirtualHostType}, Part: ads.Whole},
	{Types: []string{ListenerType}, Part: ads.Break},
	{Types: []string{ScopedRouteType}, Part: ads.Break},
	{Types: []string{ExtensionType}, Part: ads.Break, Overlap: true},
	{Types: []string{ClusterType, EndpointType}, Part: ads.Break, Overlap: true},
}}

// Label is the name of a type in metrics.
func Label(typeURL string) string {
	if !slices.Contains(types, typeURL) {
		return "unknown"
	}
	return typeURL[len(typePrefix):]
}
