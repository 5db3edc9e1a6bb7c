package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// inboundListener is by which everything comes in that is redirected to the workload: with it come mutual TLS and the policies of the mesh.
const inboundListener = "virtualInbound"

// errNoInbound is of an Envoy that says that it is ready, and has refused that listener or was never given one.
var errNoInbound = errors.New("Envoy has no listener " + inboundListener + ", by which what is redirected to this machine comes in: nothing comes in, or what does is not checked. " +
	"mesh-agent status has what Envoy refused last, and discovery's /problems which listener and why")

// inbound is nil while Envoy has the listener, where it needs one.
func (s *Server) inbound(ctx context.Context) error {
	if !s.Redirected {
		return nil
	}
	type listener struct {
		Name string `json:"name"`
	}
	var all struct {
		Listeners []listener `json:"listener_statuses"`
	}
	if err := s.Envoy.JSON(ctx, "/listeners?format=json", &all); err != nil {
		return fmt.Errorf("see whether Envoy has the listener %s: %w", inboundListener, err)
	}
	if !slices.ContainsFunc(all.Listeners, func(l listener) bool { return l.Name == inboundListener }) {
		return errNoInbound
	}
	return nil
}
