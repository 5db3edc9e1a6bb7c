package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// apiStatus is a status of the Gateway API.
type apiStatus struct {
	Conditions apiConditions
	Addresses  []struct{ Value string }
	Parents    []struct {
		ControllerName string
		Conditions     apiConditions
	}
	Listeners []struct {
		Name           string
		AttachedRoutes int
		Conditions     apiConditions
	}
	SupportedFeatures []struct{ Name string }
}

type apiConditions []struct {
	Type, Status, Reason string
	ObservedGeneration   int64
}

// has reports whether a condition is so, of a generation.
func (all apiConditions) has(want string, generation int64) bool {
	for _, c := range all {
		if c.Type+" "+c.Status+" "+c.Reason == want && c.ObservedGeneration == generation {
			return true
		}
	}
	return false
}

// stated waits until the status of a row holds something.
func (m *mesh) stated(kind, name string, holds func(s apiStatus, revision int64) bool) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		var text string
		var revision int64
		err := m.db.QueryRow(ctx, "SELECT coalesce(status::text, '{}'), observed_revision FROM mesh.status_of($1, $2, $3)", kind, m.namespace, name).Scan(&text, &revision)
		if err != nil {
			return err
		}
		var s apiStatus
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			return err
		}
		if !holds(s, revision) {
			return fmt.Errorf("%s %s says %s, of revision %d", kind, name, text, revision)
		}
		return nil
	})
}

// mcpClient is what mcp-client answers.
func (m *mesh) mcpClient(args ...string) string {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), filepath.Join(bin, "mcp-client"), append([]string{"--server", m.MCP, "--insecure", "-n", m.namespace}, args...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	require.NoError(m.t, err, "%s: %s", args, &said)
	return string(out)
}

// The status of a Gateway and its routes is in SQL and on the command line, in the API's own shape.
func TestGatewaysAndRoutesSayHowTheyStand(t *testing.T) {
	t.Parallel()
	m := newAPIGateway(t)
	shop := newBackend(t, "shop", nil)
	port := newPort(t)
	m.commit(m.service("shop.mesh", shop), listening("{name: http, port: "+port+", protocol: HTTP, hostname: '*.example.com'}"),
		httpRoute("shop", "{name: edge}", "shop.example.com", "{backendRefs: ["+toHost("shop.mesh", m.port)+"]}"),
		httpRoute("lost", "{name: edge}", "lost.example.com", "{backendRefs: ["+toHost("unwritten.mesh", m.port)+"]}"),
		httpRoute("away", "{name: edge}", "away.example.org", "{backendRefs: ["+toHost("shop.mesh", m.port)+"]}"))
	m.stated("HTTPRoute", "shop", func(s apiStatus, revision int64) bool {
		return len(s.Parents) == 1 && s.Parents[0].ControllerName == "pgmesh.io/gateway-controller" &&
			s.Parents[0].Conditions.has("Accepted True Accepted", revision) && s.Parents[0].Conditions.has("ResolvedRefs True ResolvedRefs", revision)
	})
	m.stated("HTTPRoute", "lost", func(s apiStatus, revision int64) bool {
		return s.Parents[0].Conditions.has("Accepted True Accepted", revision) && s.Parents[0].Conditions.has("ResolvedRefs False BackendNotFound", revision)
	})
	m.stated("HTTPRoute", "away", func(s apiStatus, revision int64) bool {
		return s.Parents[0].Conditions.has("Accepted False NoMatchingListenerHostname", revision)
	})
	m.stated("gtw.gateway.networking.k8s.io", "edge", func(s apiStatus, revision int64) bool {
		return s.Conditions.has("Programmed True Programmed", revision) && len(s.Addresses) > 0 &&
			s.Listeners[0].AttachedRoutes == 2 && s.Listeners[0].Conditions.has("Programmed True Programmed", revision)
	})

	yaml := m.mcpClient("get", "httproute", "lost", "-o", "yaml")
	require.Contains(t, yaml, "controllerName: pgmesh.io/gateway-controller")
	require.Contains(t, yaml, "reason: BackendNotFound")
	code, said := m.applied(yaml)
	require.Zero(t, code, "what get prints can be applied again: %s", said)
	require.Regexp(t, `(?s)Parents:\n  Gateway edge +Accepted +True +Accepted.*ResolvedRefs +False +BackendNotFound +spec.rules\[0\].backendRefs\[0\]: there is no service unwritten.mesh`, m.mcpClient("describe", "httproute", "lost"))
	require.Regexp(t, `(?s)Listeners:\n  http \(2 routes\) +Accepted +True +Accepted`, m.mcpClient("describe", "gateways.gateway.networking.k8s.io/edge"))

	// A backend comes to be there, and a route says so that nobody has edited.
	m.commit(m.service("unwritten.mesh", shop))
	m.stated("HTTPRoute", "lost", func(s apiStatus, revision int64) bool {
		return s.Parents[0].Conditions.has("ResolvedRefs True ResolvedRefs", revision)
	})
	m.agent.Stop()
	m.stated("gtw.gateway.networking.k8s.io", "edge", func(s apiStatus, revision int64) bool {
		return s.Conditions.has("Programmed False NoResources", revision) && len(s.Addresses) == 0
	})
}

const apiPath = "/apis/gateway.networking.k8s.io/v1/"

// newClusterGateway is a mesh whose server reads a cluster and writes statuses to it, with a machine
// that serves the Gateway edge.
func newClusterGateway(t *testing.T, c *kubetest.Cluster) *mesh {
	t.Helper()
	c.InstallGatewayAPI()
	database := pgtest.New(t)
	control := newStack(t, database)
	control.ServerFlags("--registry", "kubernetes://"+c.Kubeconfig(c.Address, c.Admin())+"?status=true")
	require.NoError(t, control.Start(t.Context()))
	m := meshWithoutEnvoy(t, control, database)
	c.Namespace(m.namespace)
	m.startAgent("--role", "gateway", "--gateway", "edge")
	return m
}

func apiObject(kind, name string, spec kubetest.Object) kubetest.Object {
	return kubetest.Object{"apiVersion": "gateway.networking.k8s.io/v1", "kind": kind, "metadata": kubetest.Object{"name": name}, "spec": spec}
}

// routeObject is an HTTPRoute of the Gateway edge for a host.
func routeObject(name, host, backend string) kubetest.Object {
	return apiObject("HTTPRoute", name, kubetest.Object{
		"parentRefs": []kubetest.Object{{"name": "edge"}}, "hostnames": []string{host},
		"rules": []kubetest.Object{{"backendRefs": []kubetest.Object{{"name": backend, "port": 80}}}},
	})
}

// objectSays waits until the status of an object holds something of its generation.
func objectSays(t *testing.T, c *kubetest.Cluster, path string, holds func(s apiStatus, generation int64) bool) {
	t.Helper()
	poll.Eventually(t, func(context.Context) error {
		var o struct {
			Metadata struct{ Generation int64 }
			Status   apiStatus
		}
		text := c.Get(path)
		if err := json.Unmarshal(text, &o); err != nil {
			return err
		}
		if !holds(o.Status, o.Metadata.Generation) {
			return fmt.Errorf("it says %s", text)
		}
		return nil
	})
}

// Whoever writes Gateways and routes in a cluster sees in their status there how they stand, and what
// machines serve them.
func TestStatusesOfTheGatewayAPIAreInTheCluster(t *testing.T) {
	c := kubetest.Start(t)
	m := newClusterGateway(t, c)
	in := apiPath + "namespaces/" + m.namespace + "/"
	c.ApplyService(kubetest.Service{Namespace: m.namespace, Name: "web", Port: 80})
	c.ApplySlice(kubetest.Slice{Namespace: m.namespace, Name: "web-1", Service: "web", Port: 8080, Endpoints: []kubetest.Endpoint{{Address: "10.210.0.1"}}})
	c.Apply(apiPath+"gatewayclasses/ours", apiObject("GatewayClass", "ours", kubetest.Object{"controllerName": "pgmesh.io/gateway-controller"}))
	listener, err := strconv.Atoi(newPort(t))
	require.NoError(t, err)
	c.Apply(in+"gateways/edge", apiObject("Gateway", "edge", kubetest.Object{
		"gatewayClassName": "ours", "listeners": []kubetest.Object{{"name": "http", "port": listener, "protocol": "HTTP"}},
	}))
	c.Apply(in+"httproutes/web", routeObject("web", "web.example.com", "web"))
	c.Apply(in+"httproutes/lost", routeObject("lost", "lost.example.com", "nobody"))

	objectSays(t, c, apiPath+"gatewayclasses/ours", func(s apiStatus, generation int64) bool {
		return s.Conditions.has("Accepted True Accepted", generation) && s.Conditions.has("SupportedVersion True SupportedVersion", generation) && len(s.SupportedFeatures) > 10
	})
	taken := func(s apiStatus, generation int64) bool {
		return len(s.Parents) == 1 && s.Parents[0].Conditions.has("Accepted True Accepted", generation) && s.Parents[0].Conditions.has("ResolvedRefs True ResolvedRefs", generation)
	}
	objectSays(t, c, in+"httproutes/web", taken)
	objectSays(t, c, in+"httproutes/lost", func(s apiStatus, generation int64) bool {
		return len(s.Parents) == 1 && s.Parents[0].Conditions.has("ResolvedRefs False BackendNotFound", generation)
	})
	objectSays(t, c, in+"gateways/edge", func(s apiStatus, generation int64) bool {
		return s.Conditions.has("Accepted True Accepted", generation) && s.Conditions.has("Programmed True Programmed", generation) && len(s.Addresses) > 0 &&
			s.Listeners[0].AttachedRoutes == 2 && s.Listeners[0].Conditions.has("Programmed True Programmed", generation)
	})

	var took []time.Duration
	for i := range changesTimed {
		begun := time.Now()
		c.Apply(in+"httproutes/web", routeObject("web", fmt.Sprintf("web-%d.example.com", i), "web"))
		objectSays(t, c, in+"httproutes/web", taken)
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	t.Logf("from a change of a route in the cluster until its status says that it is taken: median %s, most %s", took[changesTimed/2], took[changesTimed-1])
	manyRoutesSay(t, c, in)
}

// manyRoutesSay measures how soon the status of many new routes is right.
func manyRoutesSay(t *testing.T, c *kubetest.Cluster, in string) {
	t.Helper()
	const many = 1000
	all := make([]kubetest.Creation, many)
	for i := range all {
		o := routeObject(fmt.Sprintf("many-%d", i), fmt.Sprintf("many-%d.example.com", i), "web")
		all[i] = kubetest.Creation{Path: in + "httproutes", Object: o}
	}
	begun := time.Now()
	c.Create(all)
	created := time.Since(begun)
	poll.Within(t, time.Minute, func(context.Context) error {
		if n := strings.Count(string(c.Get(in+"httproutes")), `"controllerName":"pgmesh.io/gateway-controller"`); n < many+2 {
			return fmt.Errorf("%d have a status", n)
		}
		return nil
	})
	t.Logf("%d routes are created after %s, and all have their status after %s", many, created, time.Since(begun))
}
