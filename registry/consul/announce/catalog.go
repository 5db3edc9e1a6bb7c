package announce

import (
	"context"
	"net/url"

	"github.com/pgmesh/pgmesh/registry/consul/catalog"
	"github.com/pgmesh/pgmesh/registry/consul/client"
)

// there is what the catalog has at the node.
type there struct {
	node bool
	ours map[string]map[string]*instance // by resource and id
}

// listed is the answer of /v1/catalog/node-services.
type listed struct {
	Node     *struct{ Node string }
	Services []struct {
		ID, Service, Address string
		Port                 uint32
		Tags                 []string
		Meta                 map[string]string
		Weights              weights
	}
}

// check is one of the answer of /v1/health/node.
type check struct{ CheckID, ServiceID, Status string }

// look reads what there is at the node. What this announcer has not written is nothing to it.
func (w *writer) look(ctx context.Context) (*there, error) {
	var found listed
	if _, err := w.client.Ask(ctx, client.Query{Path: "/v1/catalog/node-services/" + url.PathEscape(w.name), Consistent: true}, &found); err != nil {
		return nil, err
	}
	var checks []check
	if _, err := w.client.Ask(ctx, client.Query{Path: "/v1/health/node/" + url.PathEscape(w.name), Consistent: true}, &checks); err != nil {
		return nil, err
	}
	status := make(map[string]string, len(checks))
	for _, c := range checks {
		if c.CheckID == checkOf(c.ServiceID) {
			status[c.ServiceID] = c.Status
		}
	}
	out := &there{node: found.Node != nil, ours: map[string]map[string]*instance{}}
	for _, s := range found.Services {
		if s.Meta[catalog.SourceMeta] == catalog.Source && s.Meta[metaBy] == w.name {
			out.put(s.Meta[metaResource], &instance{s.ID, s.Service, s.Address, s.Port, s.Tags, s.Meta, s.Weights, status[s.ID]})
		}
	}
	return out, nil
}

func (t *there) put(resource string, i *instance) {
	if t.ours[resource] == nil {
		t.ours[resource] = map[string]*instance{}
	}
	t.ours[resource][i.ID] = i
}

// took records a change that was made.
func (t *there) took(c change) {
	if !c.gone {
		t.put(c.resource, c.instance)
		return
	}
	if delete(t.ours[c.resource], c.instance.ID); len(t.ours[c.resource]) == 0 {
		delete(t.ours, c.resource)
	}
}

func (t *there) many() (n int) {
	for _, all := range t.ours {
		n += len(all)
	}
	return n
}

// checkOf is the id of the check of an instance.
func checkOf(id string) string { return "pgmesh:" + id }
