package mcp_test

import (
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

// subject is a bridge over files in the hands of the contract's test.
func subject(t *testing.T, parameters string) registrytest.Subject {
	t.Helper()
	in := newInventory(t)
	bridge := run(t, serve.Options{Registries: serve.Registries{URLs: []string{in.url("inventory")}}, StateDir: t.TempDir()})
	way := gate.Open(t, bridge.address)
	return registrytest.Subject{
		Open: func() registry.Registry { return open(t, way.Address(), parameters) },
		URL:  "mcp://" + way.Address() + "?" + parameters,
		Host: host, Register: in.register, Deregister: in.deregister,
		Cut: way.Shut, Mend: way.Unshut, Restart: bridge.restart, Weights: true, Health: true,
	}
}

func TestContract(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"delta", "xds"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			registrytest.Contract(t, func(t *testing.T) registrytest.Subject {
				t.Helper()
				return subject(t, "insecure=true&protocol="+protocol)
			})
		})
	}
}

func TestTheWholePath(t *testing.T) {
	t.Parallel()
	registrytest.WholePath(t, subject(t, "insecure=true"))
}

// The registry that the bridge reads is what cannot be asked, and the bridge is restarted.
func TestTheWholePathOverTwoHops(t *testing.T) {
	t.Parallel()
	in := newInventory(t)
	bridge := run(t, serve.Options{Registries: serve.Registries{URLs: []string{in.url("inventory")}}, StateDir: t.TempDir()})
	registrytest.WholePath(t, registrytest.Subject{
		URL: "mcp://" + bridge.address + "?insecure=true", Host: host, Register: in.register, Deregister: in.deregister,
		Cut: in.away, Mend: in.back, Restart: bridge.restart, Weights: true, Health: true,
	})
}
