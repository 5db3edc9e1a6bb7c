package consul_test

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/consul"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a registry at an address, with more parameters.
func open(t *testing.T, address, parameters string) *consul.Registry {
	t.Helper()
	at, err := url.Parse("consul://" + address + "/?" + parameters)
	require.NoError(t, err)
	r, err := consul.Open(at, reload.Options{})
	require.NoError(t, err)
	return r
}

// subject is a Consul in the hands of the contract's test.
func subject(t *testing.T, parameters string, nodeOf func(id string) string) registrytest.Subject {
	t.Helper()
	c := consultest.Start(t, nil)
	way := gate.Open(t, c.Address)
	return registrytest.Subject{
		Open: func() registry.Registry { return open(t, way.Address(), parameters) },
		URL:  "consul://" + way.Address() + "/?" + parameters,
		Host: func(service string) string { return service + ".service.consul" },
		Register: func(service string, i registrytest.Instance) {
			status := "passing"
			if i.Unhealthy {
				status = "critical"
			}
			c.Register(consultest.Instance{
				ID: i.ID, Service: service, Node: nodeOf(i.ID), Address: i.Address, Port: i.Port, Weight: i.Weight,
				Meta: map[string]string{"protocol": "http"}, Status: status,
			})
		},
		Deregister: func(_, id string) { c.Deregister(nodeOf(id), id) },
		Cut:        way.Shut, Mend: way.Unshut, Restart: c.Restart, Weights: true, Health: true,
	}
}

func TestContract(t *testing.T) {
	registrytest.Contract(t, func(t *testing.T) registrytest.Subject { t.Helper(); return subject(t, "hosts=short", each) })
}

// Two services are watched, and all others are looked through, one by one.
func TestContractOfALargeCatalog(t *testing.T) {
	registrytest.Contract(t, func(t *testing.T) registrytest.Subject { t.Helper(); return subject(t, "hosts=short&watches=2", each) })
}

// None is watched, and nodes are looked at.
func TestContractOfFewNodes(t *testing.T) {
	registrytest.Contract(t, func(t *testing.T) registrytest.Subject {
		t.Helper()
		return subject(t, "hosts=short&watches=0", func(id string) string { return "node-" + id[len(id)-1:] })
	})
}

func TestTheWholePath(t *testing.T) {
	t.Parallel()
	registrytest.WholePath(t, subject(t, "hosts=short", each))
}

// each gives each instance a node of its own.
func each(id string) string { return "node-of-" + id }
