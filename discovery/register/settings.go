package register

import (
	"context"
	"encoding/json"
	"maps"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// Settings says how the proxy of a machine is to be started.
func (s *Service) Settings(ctx context.Context, r *machinev1.SettingsRequest) (*machinev1.SettingsResponse, error) {
	caller, err := s.cfg.Who(ctx)
	if err != nil {
		return nil, err
	}
	namespace := r.GetNamespace()
	if caller.proven() {
		if err := contradiction(caller, namespace, ""); err != nil {
			return nil, err
		}
		namespace = caller.Namespace
	}
	m := s.mesh.Load()
	if m == nil {
		return nil, status.Error(codes.Unavailable, "discovery has no configuration yet: it waits for mcp-server")
	}
	if len(r.GetGroups()) > mostServices {
		return nil, invalid("a machine may have %d services, and this one has %d", mostServices, len(r.GetGroups()))
	}
	out := &machinev1.SettingsResponse{Labels: map[string]string{}}
	for _, name := range r.GetGroups() {
		g := m.WorkloadGroup(namespace, name)
		if g == nil {
			continue // the group may still come
		}
		for _, labels := range []map[string]string{g.GetMetadata().GetLabels(), g.GetTemplate().GetLabels()} {
			for k, v := range labels {
				if _, said := out.Labels[k]; !said {
					out.Labels[k] = v
				}
			}
		}
		out.Network, out.Locality = first(out.GetNetwork(), g.GetTemplate().GetNetwork()), first(out.GetLocality(), g.GetTemplate().GetLocality())
	}
	labels := maps.Clone(out.GetLabels())
	maps.Copy(labels, r.GetLabels())
	if config := m.StartedWith(namespace, labels); config != nil {
		text, err := protojson.Marshal(config)
		if err != nil {
			return nil, status.Errorf(codes.Internal, "write the ProxyConfig: %v", err)
		}
		out.ProxyConfigJson = compact(text)
	}
	return out, nil
}

// compact removes the random blanks of protobuf's JSON.
func compact(text []byte) string {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return string(text)
	}
	out, err := json.Marshal(value)
	if err != nil {
		return string(text)
	}
	return string(out)
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
