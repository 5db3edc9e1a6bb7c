package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/wait"
	"github.com/pgmesh/pgmesh/mesh-agent/proxyconfig"
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	"github.com/pgmesh/pgmesh/mesh-agent/supervise"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// askAgain is how often a discovery is asked that has never answered.
const askAgain = time.Second

// prepare makes the supervisor of an Envoy as the flags, and the mesh where they say nothing, want it.
func (m *member) prepare(ctx context.Context, f *envoyFlags, who *machine, discovery grpc.ClientConnInterface, r reloads, about *status.Server, log *slog.Logger) (*supervise.Supervisor, error) {
	if err := m.heedMesh(ctx, who, discovery, log); err != nil {
		return nil, err
	}
	data, err := m.bootstrap(who)
	if err != nil {
		return nil, err
	}
	s, err := f.supervisor(m, data, r.startAnew, about, log)
	if err != nil || m.tuning.template == "" {
		return s, err
	}
	if err := s.Validate(ctx); err != nil {
		return nil, fmt.Errorf("--bootstrap-template %s, merged over the bootstrap of mesh-agent: %w", m.tuning.template, err)
	}
	return s, nil
}

// askMesh asks discovery what it says of this machine and its proxy.
func (m *member) askMesh(ctx context.Context, who *machine, discovery grpc.ClientConnInterface) (*machinev1.SettingsResponse, error) {
	o, err := m.complete(who)
	if err != nil {
		return nil, err
	}
	request := &machinev1.SettingsRequest{Id: o.ID, Namespace: o.Namespace, Labels: o.Labels}
	for _, s := range m.services() {
		request.Groups = append(request.Groups, s.Group)
	}
	return proxyconfig.Ask(ctx, discovery, request, filepath.Join(m.state.folder, "settings.json"))
}

// heedMesh gives the flags that nobody on this machine has set the values that the mesh has for its proxies.
func (m *member) heedMesh(ctx context.Context, who *machine, discovery grpc.ClientConnInterface, log *slog.Logger) error {
	if _, err := m.complete(who); err != nil {
		return err
	}
	said, err := m.askMesh(ctx, who, discovery)
	switch {
	case err != nil && said == nil:
		log.Warn("discovery has not said yet how the mesh wants proxies to be started; Envoy is replaced when it says so", "error", err)
	case err != nil:
		log.Warn("discovery does not say how the mesh wants proxies to be started; what it said last counts", "error", err)
	}
	m.said = said
	wanted, ignored, err := proxyconfig.Read(said.GetProxyConfigJson())
	if err != nil {
		log.Error("part of what the mesh says of how proxies are started is left out", "error", err)
	}
	var heeded []string
	for _, s := range wanted {
		if m.flags.Changed(s.Flag) {
			continue
		}
		if err := settings.Offer(m.flags, s.Flag, s.Value, "ProxyConfig "+s.Field); err != nil {
			log.Error("a setting of the mesh for proxies is left out", "field", s.Field, "error", err)
			continue
		}
		heeded = append(heeded, fmt.Sprintf("--%s %s (%s)", s.Flag, s.Value, s.Field))
	}
	if len(heeded) > 0 {
		log.Info("the mesh says how proxies are started", "settings", strings.Join(heeded, ", "))
	}
	if len(ignored) > 0 {
		log.Warn("the mesh says something of how proxies are started that an agent has no use for", "fields", strings.Join(ignored, ", "))
	}
	return nil
}

// awaitMesh waits for a discovery that has never answered, and starts the agent anew if it says something that Envoy would have been started with.
func (m *member) awaitMesh(ctx context.Context, who *machine, discovery grpc.ClientConnInterface, s *supervise.Supervisor, log *slog.Logger) error {
	for m.said == nil && wait.For(ctx, askAgain) {
		said, err := m.askMesh(ctx, who, discovery)
		if err != nil {
			continue
		}
		m.said = said
		if !proto.Equal(said, &machinev1.SettingsResponse{}) {
			log.Info("discovery says now how the mesh wants proxies to be started")
			s.Reload()
		}
	}
	return nil
}
