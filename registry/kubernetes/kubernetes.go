// Package kubernetes reads a Kubernetes cluster: its Services with their endpoints, and the resources
// of the mesh's own kinds, as Istio has them there.
//
// Package client asks the cluster, package follow keeps a list as new as the cluster's, and this one
// makes of all lists what the mesh has: [content] of Services, EndpointSlices, Pods and Nodes, and
// config of the rest.
package kubernetes

import (
	"context"
	"log/slog"
	"net/url"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/kubernetes/client"
	"github.com/pgmesh/pgmesh/registry/kubernetes/kubeconfig"
)

// Registry is one cluster.
type Registry struct {
	*settings

	access   func() *kubeconfig.Access
	log      *slog.Logger
	statuses *statuses // nil if none are written
}

// Open reads the settings of a registry from its URL, and the files that it names.
func Open(u *url.URL, o reload.Options) (*Registry, error) {
	s, err := read(u)
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Registry{settings: s, log: o.Log.With("registry", s.name)}
	if s.status {
		r.statuses = newStatuses(r.log)
	}
	if s.kubeconfig != "" {
		r.access, err = kubeconfig.Load(o, s.kubeconfig, s.context)
		return r, err
	}
	pod := kubeconfig.Pod{Host: os.Getenv("KUBERNETES_SERVICE_HOST"), Port: os.Getenv("KUBERNETES_SERVICE_PORT"), Folder: kubeconfig.Folder}
	r.access, err = pod.Load(o)
	return r, err
}

// Name implements registry.Registry.
func (r *Registry) Name() string { return r.name }

// Run implements registry.Registry.
func (r *Registry) Run(ctx context.Context, sink registry.Sink) error {
	transport := client.NewTransport(r.access, r.patience)
	defer transport.CloseIdleConnections()
	group, ctx := errgroup.WithContext(ctx)
	m := newMesh(r, sink, &client.Client{Access: r.access, Transport: transport, Patience: r.patience})
	if r.services {
		m.followServices(ctx, group)
	}
	if r.config {
		m.followKinds(ctx, group)
	}
	if r.LendsSecrets() {
		m.followSecrets(ctx, group)
	}
	group.Go(func() error { return m.run(ctx) })
	return group.Wait()
}
