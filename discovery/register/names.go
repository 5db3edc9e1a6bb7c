package register

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

// names finds the entries of a machine by its name, whichever discovery it is connected to.
type names struct {
	mu      sync.Mutex
	entries map[[2]string]map[string]*kinds.Resource // by namespace and machine, and then by name
}

func newNames() *names { return &names{entries: map[[2]string]map[string]*kinds.Resource{}} }

// follow applies edits of WorkloadEntries.
func (n *names) follow(edits []configstore.Edit) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range edits {
		if r := e.Before; r != nil && r.Annotations[kinds.MachineAnnotation] != "" {
			of := [2]string{r.Namespace, r.Annotations[kinds.MachineAnnotation]}
			if delete(n.entries[of], r.Name); len(n.entries[of]) == 0 {
				delete(n.entries, of)
			}
		}
		if r := e.After; r != nil && r.Annotations[kinds.MachineAnnotation] != "" {
			of := [2]string{r.Namespace, r.Annotations[kinds.MachineAnnotation]}
			if n.entries[of] == nil {
				n.entries[of] = map[string]*kinds.Resource{}
			}
			n.entries[of][r.Name] = r
		}
	}
}

func (n *names) of(namespace, machine string) []*kinds.Resource {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.SortedFunc(maps.Values(n.entries[[2]string{namespace, machine}]), func(a, b *kinds.Resource) int { return cmp.Compare(a.Name, b.Name) })
}

// Namesakes tells a machine of services under its name. Those of other identities are not its
// business: nobody confuses them with it, and it may not know of them.
func (s *Service) Namesakes(ctx context.Context, r *machinev1.NamesakesRequest) (*machinev1.NamesakesResponse, error) {
	caller, err := s.cfg.Who(ctx)
	if err != nil {
		return nil, err
	}
	if !caller.proven() {
		return nil, status.Error(codes.Unauthenticated, "who has a name is told to those who prove who they are by a certificate")
	}
	m := s.mesh.Load()
	if m == nil {
		return nil, status.Error(codes.Unavailable, "discovery has no configuration yet: it waits for mcp-server")
	}
	out, own := &machinev1.NamesakesResponse{}, map[string]bool{}
	for _, entry := range s.names.of(caller.Namespace, r.GetId()) {
		spec, is := entry.Spec.Message().(*networking.WorkloadEntry)
		if !is || cmp.Or(spec.GetServiceAccount(), "default") != caller.ServiceAccount {
			continue
		}
		own[entry.Name] = true
		out.Namesakes = append(out.Namesakes, &machinev1.Namesake{Group: entry.Annotations[groupAnnotation], Entry: entry.Name, Address: spec.GetAddress()})
	}
	alone := aloneFor(m, caller.Namespace, own)
	for _, n := range out.GetNamesakes() {
		n.Alone = alone[n.GetEntry()]
	}
	return out, nil
}
