package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// onDemand makes the proxies of a namespace ask for what they use.
const onDemand = `
apiVersion: networking.istio.io/v1beta1
kind: ProxyConfig
metadata: {name: default}
spec: {environmentVariables: {ISTIO_META_ON_DEMAND: "true"}}
`

// given is what the Envoy of a mesh has: virtual hosts, and clusters of services.
func (m *mesh) given() (hosts, clusters []string) {
	m.t.Helper()
	var routes struct {
		Configs []struct {
			Config struct {
				Hosts []struct{ Name string } `json:"virtual_hosts"`
			} `json:"route_config"`
		}
	}
	m.admin("config_dump?resource=dynamic_route_configs", &routes)
	for _, c := range routes.Configs {
		for _, h := range c.Config.Hosts {
			hosts = append(hosts, h.Name[strings.LastIndexByte(h.Name, '/')+1:])
		}
	}
	var all struct {
		Configs []struct{ Cluster struct{ Name string } }
	}
	m.admin("config_dump?resource=dynamic_active_clusters", &all)
	for _, c := range all.Configs {
		if strings.HasPrefix(c.Cluster.Name, "outbound|") {
			clusters = append(clusters, c.Cluster.Name)
		}
	}
	slices.Sort(hosts)
	slices.Sort(clusters)
	return hosts, clusters
}

// admin asks Envoy's admin API.
func (m *mesh) admin(path string, into any) {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, "http://"+m.agent.Admin+"/"+path, http.NoBody)
	require.NoError(m.t, err)
	resp, err := m.client.Do(req)
	require.NoError(m.t, err)
	defer resp.Body.Close()
	require.NoError(m.t, json.NewDecoder(resp.Body).Decode(into))
}

// stat is a counter of Envoy's.
func (m *mesh) stat(name string) (n int) {
	m.t.Helper()
	var stats struct {
		Stats []struct {
			Name  string
			Value int
		}
	}
	m.admin("stats?format=json&filter=^"+name+"$", &stats)
	for _, s := range stats.Stats {
		n += s.Value
	}
	return n
}

// unused are services that nobody calls.
func (m *mesh) unused(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = m.service(fmt.Sprintf("unused-%d.mesh", i), &backend{name: "none", port: "9"})
	}
	return all
}

func (m *mesh) cluster(host string) string { return "outbound|" + m.port + "||" + host }

// onDemandMesh is a mesh whose Envoy uses little of it.
func onDemandMesh(t *testing.T, resources func(m *mesh) []string) *mesh {
	t.Helper()
	control, database := common.get(t)
	m := meshWithoutEnvoy(t, control, database)
	m.commit(append(append(m.unused(30), onDemand), resources(m)...)...)
	m.startAgent()
	return m
}

func TestAProxyOnDemandHasWhatItUses(t *testing.T) {
	t.Parallel()
	first, second, other := newBackend(t, "first", nil), newBackend(t, "second", nil), newBackend(t, "other", nil)
	m := onDemandMesh(t, func(m *mesh) []string {
		return []string{
			m.service(reviews, first, second), subsets(reviews, "first", "second"),
			virtualService(reviews, split(reviews, weight{"first", 100})), m.service("other.mesh", other),
		}
	})
	all := "allow_any"
	hosts, clusters := m.given()
	require.Equal(t, []string{all}, hosts)
	require.Empty(t, clusters)

	require.NoError(t, m.must(request{host: reviews}).from("first"), "the first request waits, and goes on")
	hosts, clusters = m.given()
	require.Equal(t, []string{all, reviews + ":" + m.port}, hosts)
	require.Equal(t, []string{"outbound|" + m.port + "|first|" + reviews}, clusters)
	require.NoError(t, m.must(request{host: strings.ToUpper(reviews) + ":" + m.port}).from("first"))
	require.Equal(t, http.StatusServiceUnavailable, m.must(request{host: "nobody.mesh"}).status, "as in a mesh that gives all it has")

	// A change of a used service arrives, with what that needs.
	m.commit(virtualService(reviews, split(reviews, weight{"second", 100})))
	m.answeredBy(reviews, "second")
	eventually(t, func(context.Context) error {
		if _, clusters := m.given(); !slices.Equal(clusters, []string{"outbound|" + m.port + "|second|" + reviews}) {
			return fmt.Errorf("the clusters are %v", clusters)
		}
		return nil
	})

	// Changes of unused services do not arrive. A later change that does arrive shows that they are
	// not still on their way.
	before := m.stat(`http.*rds.vhds.*update_success`)
	m.commit(virtualService("unused-3.mesh", "http: [{timeout: 3s, route: [{destination: {host: unused-3.mesh}}]}]"))
	m.commit(virtualService(reviews, split(reviews, weight{"first", 100})))
	m.answeredBy(reviews, "first")
	require.Equal(t, before+1, m.stat(`http.*rds.vhds.*update_success`))

	// A host that is deleted is gone, and is found again when it comes back.
	m.transaction(func(tx pgx.Tx) {
		m.remove(tx, "ServiceEntry", "reviews")
		m.remove(tx, "VirtualService", "reviews")
		m.remove(tx, "DestinationRule", "reviews")
	})
	eventually(t, func(ctx context.Context) error { return m.status(ctx, reviews, http.StatusServiceUnavailable) })
	m.commit(m.service(reviews, second))
	m.answers(reviews, "second")
	require.NoError(t, m.must(request{host: "other.mesh"}).from("other"))
	_, clusters = m.given()
	require.Equal(t, []string{m.cluster("other.mesh"), m.cluster(reviews)}, clusters)
}

func TestAHostForManyOnDemandLeavesRoomForOne(t *testing.T) {
	t.Parallel()
	many, one := newBackend(t, "many", nil), newBackend(t, "one", nil)
	m := onDemandMesh(t, func(m *mesh) []string {
		return []string{
			strings.Replace(m.service("many.mesh", many), "hosts: [many.mesh]", `hosts: ["*.many.mesh"]`, 1), m.service("one.many.mesh", one),
		}
	})
	require.NoError(t, m.must(request{host: "two.many.mesh"}).from("many"))
	require.NoError(t, m.must(request{host: "one.many.mesh"}).from("one"))
	require.NoError(t, m.must(request{host: "three.many.mesh"}).from("many"))
	require.NoError(t, m.must(request{host: "two.many.mesh"}).from("many"))
}

// The body of the first request is sent on once its route is known, however slowly it comes.
func TestABodyWaitsForItsRoute(t *testing.T) {
	t.Parallel()
	m := onDemandMesh(t, func(m *mesh) []string { return []string{m.service(reviews, backends(t, "v1")...)} })
	body, rest := io.Pipe()
	answered := make(chan int, 1)
	go func() {
		status, err := m.post(reviews, body)
		if err != nil {
			t.Error(err)
		}
		answered <- status
	}()
	_, err := rest.Write([]byte("some"))
	require.NoError(t, err)
	eventually(t, func(context.Context) error { // the route is known before the whole body came
		if hosts, _ := m.given(); len(hosts) < 2 {
			return fmt.Errorf("the virtual hosts are %v", hosts)
		}
		return nil
	})
	_, err = rest.Write([]byte(" more"))
	require.NoError(t, err)
	require.NoError(t, rest.Close())
	require.Equal(t, http.StatusOK, <-answered)
}

// post sends a body to a host through Envoy.
func (m *mesh) post(host string, body io.Reader) (status int, err error) {
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, "http://"+address(m.port)+"/", body)
	if err != nil {
		return 0, err
	}
	req.Host = host
	resp, err := m.client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func TestAProxyOnDemandWithoutDiscovery(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	control := newStack(t, database)
	require.NoError(t, control.Start(t.Context()))
	m := meshWithoutEnvoy(t, control, database)
	used, late := newBackend(t, "used", nil), newBackend(t, "late", nil)
	m.commit(append(m.unused(5), onDemand, m.service("used.mesh", used), m.service("late.mesh", late))...)
	m.startAgent()
	require.NoError(t, m.must(request{host: "used.mesh"}).from("used"))

	control.Discovery.Kill()
	require.NoError(t, m.must(request{host: "used.mesh"}).from("used"), "what is used is there")
	ctx, cancel := context.WithTimeout(t.Context(), 2*longestWait)
	defer cancel()
	start := time.Now()
	a, err := m.ask(ctx, request{host: "late.mesh"})
	require.NoError(t, err)
	require.Equal(t, http.StatusGatewayTimeout, a.status, "nobody can tell where this is to go")
	require.Greater(t, time.Since(start), 10*time.Second)

	waiting := make(chan error, 1)
	go func() {
		a, err := m.ask(ctx, request{host: "late.mesh"})
		if err == nil {
			err = a.from("late")
		}
		waiting <- err
	}()
	require.NoError(t, control.Discovery.Start())
	require.NoError(t, control.Discovery.Ready(ctx))
	require.NoError(t, <-waiting, "the request goes on when discovery is back")
	require.NoError(t, m.must(request{host: "used.mesh"}).from("used"))
	_, clusters := m.given()
	require.Equal(t, []string{m.cluster("late.mesh"), m.cluster("used.mesh")}, clusters)
}

// A proxy that is put on demand keeps what it has, because it may be using it. It asks for newer
// things.
func TestAProxyIsPutOnDemandWhileItRuns(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.commit(append(m.unused(3), m.service(reviews, backends(t, "v1")...))...)
	m.listening()
	m.answers(reviews, "v1")
	m.commit(onDemand)
	late := newBackend(t, "late", nil)
	m.commit(m.service("late.mesh", late))
	require.NoError(t, m.must(request{host: reviews}).from("v1"))
	m.answers("late.mesh", "late") // on older connections Envoy may still use the older routes
	require.NoError(t, m.must(request{host: reviews}).from("v1"))
	hosts, clusters := m.given()
	require.Len(t, hosts, 6)
	require.Len(t, clusters, 5)

	m.commit(strings.Replace(onDemand, `"true"`, `"false"`, 1)) // and back
	m.commit(m.service("last.mesh", late))
	m.answers("last.mesh", "late")
	eventually(t, func(context.Context) error {
		if hosts, _ := m.given(); len(hosts) != 7 {
			return fmt.Errorf("the virtual hosts are %v", hosts)
		}
		return nil
	})
}
