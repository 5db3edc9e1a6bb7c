package status

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// inboundListener receives all traffic that is redirected to the workload. It applies mutual TLS
// and the mesh's policies.
const inboundListener = "virtualInbound"

// errNoInbound means that Envoy says it is ready, but refused that listener or never got it.
var errNoInbound = errors.New("Envoy has no listener " + inboundListener + ", by which what is redirected to this machine comes in: nothing comes in, or what does is not checked. " +
	"mesh-agent status has what Envoy refused last, and discovery's /problems which listener and why")

// checkInbound returns an error if Envoy needs the listener and lacks it.
func (s *Server) checkInbound(ctx context.Context) error {
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
