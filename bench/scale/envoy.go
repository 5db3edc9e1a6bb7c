package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/bench/world"
	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
)

// envoyRun is a mesh to which routes are added one by one, each until a real Envoy answers by it.
type envoyRun struct {
	Role     string    `json:"role"`
	Protocol string    `json:"protocol"`
	Routes   int       `json:"routes"`
	All      spread    `json:"all"`
	Part     int       `json:"part"` // how many routes First and Last cover
	First    spread    `json:"first"`
	Last     spread    `json:"last"`
	Write    spread    `json:"write"`                   // COMMIT only, if there is one
	CPU      float64   `json:"server_cpu_s"`            // per route
	Envoy    []float64 `json:"envoy_main_thread_cpu_s"` // of Envoy's main thread, which handles configuration, per route, for each tenth of the routes
	Use      usage.Use `json:"machine"`
	Times    []float64 `json:"times_ms"`
}

// withEnvoy measures, for each route, the time from just before it took effect to the first answer
// other than 404.
func (r *run) withEnvoy(ctx context.Context) (err error) {
	if r.server, err = openServer(ctx, r.options); err != nil {
		return err
	}
	defer r.server.stop()
	defer r.server.writer.close()
	e, err := r.startEnvoy(ctx)
	if err != nil {
		return err
	}
	defer e.stop()
	found := &envoyRun{Role: r.EnvoyRole, Protocol: r.Protocol, Routes: r.EnvoyRoutes, Part: max(1, r.EnvoyRoutes/10)}
	start, cpu, own := usage.Now(), usage.CPUOf(r.server.pid()), usage.MainThreadCPUOf(e.process.Pid())
	var all, writes []time.Duration
	for i := range r.EnvoyRoutes {
		took, wrote, err := e.add(ctx, r.server.writer, i)
		if err != nil {
			return fmt.Errorf("route %d: %w\n%s", i, err, e.log())
		}
		all, writes = append(all, took), append(writes, wrote)
		if (i+1)%found.Part == 0 {
			now := usage.MainThreadCPUOf(e.process.Pid())
			found.Envoy, own = append(found.Envoy, (now-own).Seconds()/float64(found.Part)), now
		}
	}
	found.All, found.First, found.Last = spreadOf(all), spreadOf(all[:found.Part]), spreadOf(all[len(all)-found.Part:])
	found.Write, found.Times, found.Use = spreadOf(writes), allMillis(all), usage.Now().Since(start)
	found.CPU = (usage.CPUOf(r.server.pid()) - cpu).Seconds() / float64(r.EnvoyRoutes)
	r.result.Envoy = found
	return nil
}

// realEnvoy is an Envoy with a backend.
type realEnvoy struct {
	role    string
	port    int // of the service or the gateway, on which Envoy listens
	dir     string
	process *process.Process
	backend *httptest.Server
	client  *http.Client
}

const envoyNamespace = "envoy"

func (r *run) startEnvoy(ctx context.Context) (*realEnvoy, error) {
	e := &realEnvoy{role: r.EnvoyRole, client: realenvoy.Client(), backend: realenvoy.Backend()}
	var err error
	if e.port, err = realenvoy.FreePort(); err != nil {
		return nil, err
	}
	if e.dir, err = os.MkdirTemp("", "pgmesh-scale-envoy-"); err != nil {
		return nil, err
	}
	if _, err := r.server.writer.write(ctx, change{scenario: "envoy", resources: e.mesh()}); err != nil {
		return nil, err
	}
	return e, e.start(r.envoy, r.server.address, bootstrap.XDS(r.Protocol))
}

// mesh returns the service, and the gateway if there is one.
func (e *realEnvoy) mesh() []world.Resource {
	all := []world.Resource{{Kind: "ServiceEntry", Namespace: envoyNamespace, Name: "backend", Spec: e.service(world.HostOf("backend", envoyNamespace))}}
	if e.role == "gateway" {
		all = append(all, world.Resource{Kind: "Gateway", Namespace: envoyNamespace, Name: "gateway", Spec: world.Object{
			"selector": world.Object{"app": "gateway"},
			"servers":  []any{world.Object{"port": world.Object{"number": e.port, "name": "http", "protocol": "HTTP"}, "hosts": []any{"*"}}},
		}})
	}
	return all
}

func (e *realEnvoy) service(host string) world.Object {
	_, backend, _ := net.SplitHostPort(e.backend.Listener.Addr().String())
	number, _ := strconv.Atoi(backend)
	spec := world.ServiceSpec(host)
	spec["ports"] = []any{world.Object{"number": e.port, "name": "http", "protocol": "HTTP"}}
	spec["endpoints"] = []any{world.Object{"address": "127.0.0.1", "ports": world.Object{"http": number}}}
	return spec
}

func (e *realEnvoy) start(binary, address string, form bootstrap.XDS) error {
	role := bootstrap.Sidecar
	if e.role == "gateway" {
		role = bootstrap.Gateway
	}
	o := realenvoy.Sidecar()
	o.XDS, o.Role, o.ID, o.Namespace = form, role, "scale."+envoyNamespace, envoyNamespace
	o.Domain, o.Labels = envoyNamespace+".mesh.test", map[string]string{"app": e.role}
	b, err := realenvoy.Bootstrap(o, address)
	if err != nil {
		return err
	}
	e.process, err = realenvoy.Start(realenvoy.Binary(binary), e.dir, b)
	return err
}

// add writes a route for a new host, and sends requests to that host until they are answered.
func (e *realEnvoy) add(ctx context.Context, w writer, number int) (took, wrote time.Duration, err error) {
	name := fmt.Sprintf("route-%d", number)
	host := world.HostOf(name, envoyNamespace)
	timing.Settle()
	start, err := w.write(ctx, change{scenario: "envoy", resources: e.route(name, host)})
	if err != nil {
		return 0, 0, err
	}
	wrote = time.Since(start)
	for deadline := start.Add(changeTimeout); time.Now().Before(deadline); {
		answered, err := e.ask(ctx, host)
		if answered {
			return time.Since(start), wrote, nil
		}
		if err != nil && number > 0 { // Envoy opens its port with the first route
			return 0, 0, err
		}
	}
	return 0, 0, fmt.Errorf("envoy does not answer for %s", host)
}

// route returns another route to the backend. A sidecar routes only hosts of services, so there the
// host becomes a service.
func (e *realEnvoy) route(name, host string) []world.Resource {
	spec := world.RouteSpec(host, world.HostOf("backend", envoyNamespace), name)
	if e.role == "gateway" {
		spec["gateways"] = []any{"gateway"}
		return []world.Resource{{Kind: "VirtualService", Namespace: envoyNamespace, Name: name, Spec: spec}}
	}
	return []world.Resource{{Kind: "VirtualService", Namespace: envoyNamespace, Name: name, Spec: spec}, {Kind: "ServiceEntry", Namespace: envoyNamespace, Name: name, Spec: e.service(host)}}
}

func (e *realEnvoy) ask(ctx context.Context, host string) (answered bool, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", e.port), nil)
	if err != nil {
		return false, err
	}
	request.Host = host
	response, err := e.client.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK, err
}

const endOfLog = 2 << 10

func (e *realEnvoy) log() string {
	text := realenvoy.Log(e.dir)
	return "The end of Envoy's log:\n" + text[max(0, len(text)-endOfLog):]
}

func (e *realEnvoy) stop() {
	e.process.Kill()
	e.backend.Close()
	os.RemoveAll(e.dir)
}
