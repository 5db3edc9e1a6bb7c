package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/mesh-agent/envoy/bootstrap"
)

const (
	service = "bench"
	host    = "bench.service.consul"
)

// mesh is a bridge with an Envoy behind it, and a service of Consul with an instance that stays and
// one that comes and goes.
type mesh struct {
	consul *consul
	stack  *stack.Stack
	envoy  *process.Process
	stays  *httptest.Server
	comes  *httptest.Server
	port   int // of the service, on which Envoy listens
	client *http.Client
}

func backend(name string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, name) }))
}

func (o *options) startMesh(ctx context.Context, c *consul, folder string) (*mesh, error) {
	m := &mesh{consul: c, stays: backend("stays"), comes: backend("comes"), client: realenvoy.Client()}
	var err error
	if m.port, err = realenvoy.FreePort(); err != nil {
		return m, err
	}
	if err := c.put(ctx, "/v1/catalog/register", m.document("stays", m.stays, "passing")); err != nil {
		return m, err
	}
	if m.stack, err = stack.NewBridge(folder, folder, "consul://"+c.address+"/?hosts=short"); err != nil {
		return m, err
	}
	if err := m.stack.Start(ctx); err != nil {
		return m, err
	}
	b, err := bootstrap.New(bootstrap.Options{
		Role: bootstrap.Sidecar, Socket: "/nowhere", XDS: bootstrap.Delta, IP: "127.0.0.1", ID: "bench.bench", Namespace: "bench",
		Domain: "bench.svc.cluster.local", Interception: bootstrap.None, Admin: "127.0.0.1:0",
	})
	if err != nil {
		return m, err
	}
	if err := realenvoy.Direct(b, m.stack.XDS); err != nil {
		return m, err
	}
	if m.envoy, err = realenvoy.Start(o.envoy, folder, b); err != nil {
		return m, err
	}
	return m, m.until(ctx, "stays", 1)
}

func (m *mesh) stop() {
	if m.envoy != nil {
		m.envoy.Kill()
	}
	if m.stack != nil {
		m.stack.Stop()
	}
	m.stays.Close()
	m.comes.Close()
}

// document is an instance as the catalog takes it.
func (m *mesh) document(id string, server *httptest.Server, status string) object {
	at, err := url.Parse(server.URL)
	if err != nil {
		panic(err) // it is that of a running server
	}
	port, _ := strconv.Atoi(at.Port())
	return object{
		"Node": "bench-" + id, "Address": "127.0.0.1",
		"Service": object{"ID": id, "Service": service, "Address": "127.0.0.1", "Port": port, "Meta": object{"protocol": "http", "mesh-port": strconv.Itoa(m.port)}},
		"Check":   object{"CheckID": "check", "Name": "check", "ServiceID": id, "Status": status},
	}
}

// step is a change in Consul.
type step func(context.Context) error

func (m *mesh) pass(ctx context.Context) error {
	return m.consul.put(ctx, "/v1/catalog/register", m.document("comes", m.comes, "passing"))
}

func (m *mesh) fail(ctx context.Context) error {
	return m.consul.put(ctx, "/v1/catalog/register", m.document("comes", m.comes, "critical"))
}

func (m *mesh) register(ctx context.Context) error { return m.pass(ctx) }

func (m *mesh) deregister(ctx context.Context) error {
	return m.consul.put(ctx, "/v1/catalog/deregister", object{"Node": "bench-comes"})
}

// ask sends one request through Envoy and returns who has answered.
func (m *mesh) ask(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", m.port), nil)
	if err != nil {
		return "", err
	}
	request.Host = host
	response, err := m.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New("Envoy answers " + response.Status)
	}
	return string(body), err
}

// changeTimeout is when a change without effect counts as lost.
const changeTimeout = 10 * time.Second

// until waits until one answers so many requests one after the other.
func (m *mesh) until(ctx context.Context, who string, times int) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for n := 0; n < times; {
		switch got, err := m.ask(ctx); {
		case err == nil && got == who:
			n++
		case !wait.For(ctx, time.Millisecond): // Envoy does not report when it has a configuration
			return fmt.Errorf("%s does not answer: %q, %w", who, got, errors.Join(err, ctx.Err()))
		default:
			n = 0
		}
	}
	return nil
}

// quiet is how many requests in a row the one that stays answers once the other gets none.
const quiet = 20

func (o *options) measure(ctx context.Context, m *mesh, change, undo step) (t times, err error) {
	for n := range o.warmup + o.changes {
		if err := undo(ctx); err != nil {
			return t, err
		}
		if err := m.until(ctx, "stays", quiet); err != nil {
			return t, err
		}
		timing.Settle()
		answered, told, err := m.one(ctx, change)
		if err != nil {
			return t, err
		}
		if n >= o.warmup {
			t.answered, t.told = append(t.answered, answered), append(t.told, told)
		}
	}
	return t, undo(ctx)
}

// one measures one change, from when it is sent.
func (m *mesh) one(ctx context.Context, change step) (answered, told time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	tells, err := m.consul.tells(ctx, service)
	if err != nil {
		return 0, 0, err
	}
	made := make(chan error, 1)
	begun := time.Now()
	go func() { made <- change(ctx) }()
	for {
		got, err := m.ask(ctx)
		if err != nil {
			return 0, 0, err
		}
		if got == "comes" {
			break
		}
	}
	answered = time.Since(begun)
	if err := <-made; err != nil {
		return 0, 0, err
	}
	at, is := <-tells
	if !is {
		return 0, 0, errors.New("Consul has not told its own client")
	}
	return answered, at.Sub(begun), nil
}
