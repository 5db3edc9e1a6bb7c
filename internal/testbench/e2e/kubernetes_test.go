package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// Services of a cluster are called through Envoy, by the VirtualServices of the cluster, and stay when
// the cluster is away. Kubernetes takes no endpoints on loopback, so they have a network of their own,
// with the Envoy that calls them.
func TestServicesOfKubernetesAreCalled(t *testing.T) {
	c := kubetest.Start(t)
	c.InstallIstio()
	network := netns.New(t)
	m := meshOfCluster(t, c, network, "")
	c.Namespace(m.namespace)
	backends := map[string]*backend{}
	for _, address := range []string{"10.210.0.1", "10.210.0.2"} {
		network.Run("ip", "addr", "add", address+"/32", "dev", "lo")
		backends[address] = serveBackend(t, address, network.Listen("tcp", address+":0"))
	}
	host := "web." + m.namespace + ".svc.cluster.local"
	port, err := strconv.ParseUint(m.port, 10, 16)
	require.NoError(t, err)
	c.ApplyService(kubetest.Service{Namespace: m.namespace, Name: "web", Port: uint32(port)})
	at := func(address string) {
		to, err := strconv.ParseUint(backends[address].port, 10, 16)
		require.NoError(t, err)
		c.ApplySlice(kubetest.Slice{Namespace: m.namespace, Name: "web-1", Service: "web", Port: uint32(to), Endpoints: []kubetest.Endpoint{{Address: address}}})
	}
	at("10.210.0.1")
	m.reaches(host, "10.210.0.1")
	c.Apply("/apis/networking.istio.io/v1/namespaces/"+m.namespace+"/virtualservices/web", kubetest.Object{
		"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": kubetest.Object{"name": "web"},
		"spec": kubetest.Object{"hosts": []string{"web"}, "http": []kubetest.Object{{
			"headers": kubetest.Object{"response": kubetest.Object{"set": kubetest.Object{"by": "kubernetes"}}},
			"route":   []kubetest.Object{{"destination": kubetest.Object{"host": "web"}}},
		}}},
	})
	m.reachesBy(host, func(a *answer) error {
		if a.header.Get("By") != "kubernetes" {
			return fmt.Errorf("the VirtualService does not count: %v", a.header)
		}
		return nil
	})
	m.timesChanges(c, host, at)

	c.Kill()
	says(t, m.MCPServer.Log, "the registry cannot be asked")
	m.MCPServer.Stop()
	require.NoError(t, m.MCPServer.Start())
	require.NoError(t, m.MCPServer.Ready(t.Context()))
	m.reaches(host, "10.210.0.1")
	c.Restart()
	at("10.210.0.2")
	m.reaches(host, "10.210.0.2")
}

// meshOfCluster is a mesh whose server reads a cluster, with some parameters, and whose agent runs in
// a network of its own.
func meshOfCluster(t *testing.T, c *kubetest.Cluster, network *netns.Namespace, parameters string) *mesh {
	t.Helper()
	database := pgtest.New(t)
	control := newStack(t, database)
	control.ServerFlags("--registry", "kubernetes://"+c.Kubeconfig(c.Address, c.Admin())+"?"+parameters)
	require.NoError(t, control.Start(t.Context()))
	m := meshWithoutEnvoy(t, control, database)
	network.Forward(control.XDS, control.XDS)
	agent, err := m.Agent(envoytest.Binary(t), "client."+m.namespace, "--namespace", m.namespace, "--concurrency", "1", "--drain-time", "0s")
	require.NoError(t, err)
	agent.Via(network.Via()...)
	require.NoError(t, agent.Start())
	t.Cleanup(func() {
		agent.Stop()
		if t.Failed() {
			t.Logf("the agent's and Envoy's log:\n%s", agent.Log())
		}
	})
	m.agent, m.client = agent, &http.Client{Transport: &http.Transport{DialContext: network.Dial, MaxIdleConnsPerHost: 1}}
	t.Cleanup(m.client.CloseIdleConnections)
	return m
}

// reaches waits until a backend answers for a host.
func (m *mesh) reaches(host, backend string) {
	m.t.Helper()
	m.reachesBy(host, func(a *answer) error {
		if a.seen.Backend != backend {
			return fmt.Errorf("%s does not answer, but: %d %s", backend, a.status, a.body)
		}
		return nil
	})
}

func (m *mesh) reachesBy(host string, holds func(*answer) error) {
	m.t.Helper()
	poll.Eventually(m.t, func(ctx context.Context) error {
		a, err := send(ctx, m.client, "127.0.0.1:"+m.port, request{host: host})
		if err != nil {
			return err
		}
		return holds(a)
	})
}

const changesTimed = 21

// timesChanges says how long it takes from a change in the cluster to the first answer that it causes,
// and until another client of the cluster is told of it.
func (m *mesh) timesChanges(c *kubetest.Cluster, host string, at func(address string)) {
	m.t.Helper()
	told := c.Watch("/apis/discovery.k8s.io/v1/namespaces/" + m.namespace + "/endpointslices")
	var took, floor []time.Duration
	for i := range changesTimed {
		address := fmt.Sprintf("10.210.0.%d", 2-i%2)
		begun := time.Now()
		at(address)
		m.reaches(host, address)
		took = append(took, time.Since(begun))
		floor = append(floor, (<-told).Sub(begun))
	}
	at("10.210.0.1")
	m.reaches(host, "10.210.0.1")
	slices.Sort(took)
	slices.Sort(floor)
	m.t.Logf("from a change in the cluster to the first answer: median %s, most %s; another client of the cluster is told after %s, %s",
		took[changesTimed/2], took[changesTimed-1], floor[changesTimed/2], floor[changesTimed-1])
}
