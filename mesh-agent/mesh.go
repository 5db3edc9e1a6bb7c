package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/proxyconfig"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/supervise"
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// retryInterval is how often to ask a discovery that has never answered.
const retryInterval = time.Second

// prepare returns the supervisor of an Envoy configured by the flags and, where those are not set, by the
// mesh.
func (m *member) prepare(ctx context.Context, f *envoyFlags, who *machine, discovery grpc.ClientConnInterface, r reloadSignals, server *status.Server, log *slog.Logger) (*supervise.Supervisor, error) {
	if err := m.applyMeshSettings(ctx, who, discovery, log); err != nil {
		return nil, err
	}
	data, err := m.bootstrap(who)
	if err != nil {
		return nil, err
	}
	s, err := f.supervisor(m, data, r.reexec, server, log)
	if err != nil || m.tuning.template == "" {
		return s, err
	}
	if err := s.Validate(ctx); err != nil {
		return nil, fmt.Errorf("--bootstrap-template %s, merged over the bootstrap of mesh-agent: %w", m.tuning.template, err)
	}
	return s, nil
}

// requestSettings asks discovery for its settings for this machine and its proxy.
func (m *member) requestSettings(ctx context.Context, who *machine, discovery grpc.ClientConnInterface) (*machinev1.SettingsResponse, error) {
	o, err := m.complete(who)
	if err != nil {
		return nil, err
	}
	request := &machinev1.SettingsRequest{Id: o.ID, Namespace: o.Namespace, Labels: o.Labels}
	for _, s := range m.services() {
		request.Groups = append(request.Groups, s.Group)
	}
	return proxyconfig.Ask(ctx, discovery, request, m.state.File("settings.json"))
}

// applyMeshSettings sets flags that were not set on this machine to the mesh's values.
func (m *member) applyMeshSettings(ctx context.Context, who *machine, discovery grpc.ClientConnInterface, log *slog.Logger) error {
	if _, err := m.complete(who); err != nil {
		return err
	}
	answer, err := m.requestSettings(ctx, who, discovery)
	switch {
	case err != nil && answer == nil:
		log.Warn("discovery has not said yet how the mesh wants proxies to be started; Envoy is replaced when it says so", "error", err)
	case err != nil:
		log.Warn("discovery does not say how the mesh wants proxies to be started; what it said last counts", "error", err)
	}
	m.meshSettings = answer
	wanted, ignored, err := proxyconfig.Read(answer.GetProxyConfigJson())
	if err != nil {
		log.Error("part of what the mesh says of how proxies are started is left out", "error", err)
	}
	var applied []string
	for _, s := range wanted {
		if m.flags.Changed(s.Flag) {
			continue
		}
		if err := settings.Offer(m.flags, s.Flag, s.Value, "ProxyConfig "+s.Field); err != nil {
			log.Error("a mesh setting for starting proxies is left out", "field", s.Field, "error", err)
			continue
		}
		applied = append(applied, fmt.Sprintf("--%s %s (%s)", s.Flag, s.Value, s.Field))
	}
	if len(applied) > 0 {
		log.Info("the mesh says how proxies are started", "settings", strings.Join(applied, ", "))
	}
	if len(ignored) > 0 {
		log.Warn("the mesh says something of how proxies are started that an agent has no use for", "fields", strings.Join(ignored, ", "))
	}
	return nil
}

// awaitMeshSettings waits until a discovery that has never answered does, and reloads the agent if its
// settings affect how Envoy is started.
func (m *member) awaitMeshSettings(ctx context.Context, who *machine, discovery grpc.ClientConnInterface, s *supervise.Supervisor, log *slog.Logger) error {
	for m.meshSettings == nil && wait.For(ctx, retryInterval) {
		answer, err := m.requestSettings(ctx, who, discovery)
		if err != nil {
			continue
		}
		m.meshSettings = answer
		if !proto.Equal(answer, &machinev1.SettingsResponse{}) {
			log.Info("discovery has sent the mesh's settings for starting proxies")
			s.Reload()
		}
	}
	return nil
}
