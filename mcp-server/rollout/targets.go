package rollout

import (
	"cmp"
	"context"
	"net"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/mcp-server/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/rollout"
)

// agentsPort is where agents serve their metrics unless their flag --status says otherwise.
const agentsPort = 15026

// ListScrapeTargets lists the machines whose agents have metrics. Those that are away are among
// them for some minutes, for their agents may still be reached.
func (s *Service) ListScrapeTargets(ctx context.Context, req *adminv1.ListScrapeTargetsRequest) (*adminv1.ListScrapeTargetsResponse, error) {
	namespaces, err := caller.From(ctx).Readable(req.GetNamespaces(), "see the proxies")
	if err != nil {
		return nil, caller.StatusOf(err)
	}
	if req.GetPort() > 65535 {
		return nil, status.Errorf(codes.InvalidArgument, "port: %d is no port: give that of the agents' --status", req.GetPort())
	}
	list, err := s.store.List(ctx, rollout.Filter{Namespaces: namespaces})
	if err != nil {
		return nil, failure.Status(s.log, "which proxies there are", err)
	}
	resp := &adminv1.ListScrapeTargetsResponse{}
	port := strconv.Itoa(int(cmp.Or(req.GetPort(), agentsPort)))
	for _, p := range list {
		if p.Agent != "" && len(p.Addresses) > 0 {
			resp.Targets = append(resp.Targets, &adminv1.ScrapeTarget{Targets: []string{net.JoinHostPort(p.Addresses[0], port)}, Labels: targetLabels(p)})
		}
	}
	return resp, nil
}

// targetLabels are what every metric of a machine is labelled with. The machine's own labels are
// many, and each site wants others of them, so they are for relabelling alone.
func targetLabels(p rollout.Listed) map[string]string {
	region, rest, _ := strings.Cut(p.Locality, "/")
	zone, _, _ := strings.Cut(rest, "/")
	labels := map[string]string{
		"namespace": p.Namespace, "proxy": p.Proxy, "role": p.Role, "service_account": p.ServiceAccount, "network": p.Network,
		"region": region, "zone": zone, "discovery": p.Discovery,
		"workload": cmp.Or(p.Labels["service.istio.io/canonical-name"], p.Labels["app"], p.Proxy),
	}
	for name, value := range labels {
		if value == "" {
			delete(labels, name)
		}
	}
	for name, value := range p.Labels {
		labels["__meta_pgmesh_label_"+notOfLabels.ReplaceAllString(name, "_")] = value
	}
	return labels
}

// notOfLabels are the characters that names of Prometheus' labels do not have.
var notOfLabels = regexp.MustCompile(`[^a-zA-Z0-9_]`)
