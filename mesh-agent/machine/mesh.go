package machine

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/kit/retry"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/proxyconfig"
	"github.com/pgmesh/pgmesh/mesh-agent/identity/member"
	"github.com/pgmesh/pgmesh/mesh-agent/settings"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// asking are the pauses between questions to a discovery that has never answered.
var asking = retry.Pauses{First: time.Second, Longest: time.Second}

// requestSettings asks discovery for its settings for this machine and its proxy.
func (m *Machine) requestSettings(ctx context.Context, who *member.Member, discovery grpc.ClientConnInterface) (*machinev1.SettingsResponse, error) {
	o, err := m.Proxy(who)
	if err != nil {
		return nil, err
	}
	request := &machinev1.SettingsRequest{Id: o.ID, Namespace: o.Namespace, Labels: o.Labels}
	for _, s := range m.Services() {
		request.Groups = append(request.Groups, s.Group)
	}
	return proxyconfig.Ask(ctx, discovery, request, m.State.File("settings.json"))
}

// ApplyMeshSettings asks discovery how the mesh wants proxies to be started, and sets the flags
// that nothing on this machine has set.
func (m *Machine) ApplyMeshSettings(ctx context.Context, who *member.Member, discovery grpc.ClientConnInterface, log *slog.Logger) error {
	if _, err := m.Proxy(who); err != nil {
		return err
	}
	answer, err := m.requestSettings(ctx, who, discovery)
	switch {
	case err != nil && answer == nil:
		log.Warn("discovery has not said yet how the mesh wants proxies to be started; Envoy is replaced when it says so", "error", err)
	case err != nil:
		log.Warn("discovery does not say how the mesh wants proxies to be started; what it said last counts", "error", err)
	}
	m.mesh = answer
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

// AwaitMeshSettings waits until a discovery that has never answered does, and calls changed if its
// settings affect how Envoy is started.
func (m *Machine) AwaitMeshSettings(ctx context.Context, who *member.Member, discovery grpc.ClientConnInterface, changed func(), log *slog.Logger) error {
	for pauses := asking.Backoff(); m.mesh == nil && pauses.Wait(ctx); {
		answer, err := m.requestSettings(ctx, who, discovery)
		if err != nil {
			continue
		}
		m.mesh = answer
		if !proto.Equal(answer, &machinev1.SettingsResponse{}) {
			log.Info("discovery has sent the mesh's settings for starting proxies")
			changed()
		}
	}
	return nil
}
