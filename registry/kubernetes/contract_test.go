package kubernetes_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/kubernetes"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a registry by a kubeconfig, with more parameters.
func open(t *testing.T, kubeconfig, parameters string) *kubernetes.Registry {
	t.Helper()
	at, err := url.Parse("kubernetes://" + kubeconfig + "?" + parameters)
	require.NoError(t, err)
	r, err := kubernetes.Open(at, reload.Options{})
	require.NoError(t, err)
	kubernetes.LookEvery(r, 100*time.Millisecond)
	return r
}

// shop is the namespace of tests.
const shop = "shop"

// subject is a cluster in the hands of the contract's test: each instance has an EndpointSlice of its
// own, and no Pod.
func subject(t *testing.T) registrytest.Subject {
	t.Helper()
	c := kubetest.Start(t)
	c.Namespace(shop)
	way := gate.Open(t, c.Address)
	kubeconfig := c.Kubeconfig(way.Address(), c.Admin())
	const parameters = "namespaces=shop&timeout=500ms"
	instances := map[string]map[string]bool{}
	return registrytest.Subject{
		Open: func() registry.Registry { return open(t, kubeconfig, parameters) },
		URL:  "kubernetes://" + kubeconfig + "?" + parameters,
		Host: func(service string) string { return service + ".shop.svc.cluster.local" },
		Register: func(service string, i registrytest.Instance) {
			if instances[service] == nil {
				instances[service] = map[string]bool{}
				c.ApplyService(kubetest.Service{Namespace: shop, Name: service, Port: 80})
			}
			instances[service][i.ID] = true
			c.ApplySlice(kubetest.Slice{
				Namespace: shop, Name: i.ID, Service: service, Port: i.Port,
				Endpoints: []kubetest.Endpoint{{Address: i.Address, NotReady: i.Unhealthy}},
			})
		},
		Deregister: func(service, id string) {
			c.Delete(kubetest.SlicePath(shop, id))
			if delete(instances[service], id); len(instances[service]) == 0 {
				delete(instances, service)
				c.Delete(kubetest.ServicePath(shop, service))
			}
		},
		Cut: way.Shut, Mend: way.Unshut, Restart: c.Restart, Health: true,
	}
}

func TestContract(t *testing.T) {
	registrytest.Contract(t, func(t *testing.T) registrytest.Subject { t.Helper(); return subject(t) })
}

func TestTheWholePath(t *testing.T) {
	t.Parallel()
	registrytest.WholePath(t, subject(t))
}
