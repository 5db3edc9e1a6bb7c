package zookeeper_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/testbench/gate"
	"github.com/pgmesh/pgmesh/internal/testbench/zookeepertest"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/registrytest"
	"github.com/pgmesh/pgmesh/registry/zookeeper"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open opens a registry at an address, with a chroot and parameters behind it.
func open(t *testing.T, address, rest string) *zookeeper.Registry {
	t.Helper()
	at, err := url.Parse("zookeeper://" + address + rest)
	require.NoError(t, err)
	r, err := zookeeper.Open(at, reload.Options{})
	require.NoError(t, err)
	return r
}

// node says where an instance is registered, below the node of services, and what is there.
type node func(service string, i registrytest.Instance) (below, content string)

// subject is a ZooKeeper in the hands of the contract's test.
func subject(t *testing.T, root, rest string, s registrytest.Subject, at node) registrytest.Subject {
	t.Helper()
	z := zookeepertest.Start(t, nil)
	way := gate.Open(t, z.Address)
	s = instances(z.Client, root, s, at)
	s.Open = func() registry.Registry { return open(t, way.Address(), rest) }
	s.URL = "zookeeper://" + way.Address() + rest
	s.Cut, s.Mend, s.Restart = way.Shut, way.Unshut, z.Restart
	return s
}

// instances are registered below a node that is there already. Where the last instance of a service
// goes, its node goes, as Curator's containers do.
func instances(z *zookeepertest.Client, root string, s registrytest.Subject, node node) registrytest.Subject {
	z.Put(root, "")
	now := map[string]string{} // the node of each instance
	s.Register = func(service string, i registrytest.Instance) {
		below, content := node(service, i)
		at := root + "/" + below
		z.Put(at, content)
		if before := now[service+"/"+i.ID]; before != "" && before != at {
			z.Remove(before)
		}
		now[service+"/"+i.ID] = at
	}
	s.Deregister = func(service, id string) {
		at := now[service+"/"+id]
		delete(now, service+"/"+id)
		z.Remove(at)
		z.RemoveIfEmpty(at[:strings.LastIndex(at, "/")])
	}
	s.Weights, s.Health = true, true
	return s
}

// curator registers as Spring Cloud does with Curator.
func curator(service string, i registrytest.Instance) (below, content string) {
	text, err := json.Marshal(map[string]any{
		"name": service, "id": i.ID, "address": i.Address, "port": i.Port, "sslPort": nil, "serviceType": "DYNAMIC", "enabled": !i.Unhealthy,
		"payload": map[string]any{"@class": "example", "id": i.ID, "name": service, "metadata": map[string]string{"weight": fmt.Sprint(i.Weight)}},
		"uriSpec": map[string]any{"parts": []any{map[string]any{"value": "scheme", "variable": true}, map[string]any{"value": "://", "variable": false}}},
	})
	if err != nil {
		panic(err)
	}
	return service + "/" + i.ID, string(text)
}

// dubbo registers a provider of an interface, over HTTP.
func dubbo(service string, i registrytest.Instance) (below, content string) {
	server := net.JoinHostPort(i.Address, fmt.Sprint(i.Port))
	at := fmt.Sprintf("rest://%s/%s?interface=%s&weight=%d&disabled=%t&id=%s", server, service, service, i.Weight, i.Unhealthy, i.ID)
	return service + "/providers/" + url.QueryEscape(at), ""
}

func TestContract(t *testing.T) {
	for name, rest := range map[string]string{"one watch": "/?timeout=2s", "each node has a watch": "/?timeout=2s&watches=each"} {
		t.Run(name, func(t *testing.T) {
			registrytest.Contract(t, func(t *testing.T) registrytest.Subject {
				t.Helper()
				s := registrytest.Subject{Host: func(service string) string { return service + ".zookeeper" }}
				return subject(t, "/services", rest, s, curator)
			})
		})
	}
}

func TestContractOfDubbo(t *testing.T) {
	for name, rest := range map[string]string{"one watch": "/?timeout=2s&format=dubbo", "each node has a watch": "/?timeout=2s&format=dubbo&watches=each"} {
		t.Run(name, func(t *testing.T) {
			registrytest.Contract(t, func(t *testing.T) registrytest.Subject {
				t.Helper()
				s := registrytest.Subject{Host: func(service string) string { return "rest." + service + ".dubbo" }}
				return subject(t, "/dubbo", rest, s, dubbo)
			})
		})
	}
}

func TestTheWholePath(t *testing.T) {
	t.Parallel()
	s := registrytest.Subject{Host: func(service string) string { return service + ".zookeeper" }}
	registrytest.WholePath(t, subject(t, "/services", "/?timeout=2s", s, curator))
}
