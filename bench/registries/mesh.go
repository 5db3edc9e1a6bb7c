package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/pgmesh/pgmesh/bench/host"
	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// mesh is a bridge with an Envoy behind it, and a service of a registry with an instance that stays and
// one that comes and goes.
type mesh struct {
	registry elsewhere
	stack    *stack.Stack
	address  string // of the instances
	backends map[string]*httptest.Server
	port     int // of the service, on which Envoy listens
	client   *http.Client
}

func (o *options) startMesh(h *host.Host, registry elsewhere) (m *mesh, err error) {
	m = &mesh{registry: registry, backends: map[string]*httptest.Server{}, client: realenvoy.Client()}
	if m.address, err = host.Address(); err != nil {
		return nil, err
	}
	for _, name := range []string{stays, comes} {
		if m.backends[name], err = h.Backend(m.address, name); err != nil {
			return nil, err
		}
	}
	if m.port, err = realenvoy.FreePort(); err != nil {
		return nil, err
	}
	m.put(stays, true)
	folder := h.TempDir()
	if m.stack, err = stack.NewBridge(o.bin, folder, registry.url()); err != nil {
		return nil, err
	}
	h.Cleanup(m.stack.Stop)
	if err := m.stack.Start(h.Context()); err != nil {
		return nil, err
	}
	return m, o.startEnvoy(h, m, folder)
}

func (o *options) startEnvoy(h *host.Host, m *mesh, folder string) error {
	b, err := realenvoy.Bootstrap(realenvoy.Sidecar(), m.stack.XDS)
	if err != nil {
		return err
	}
	envoy, err := realenvoy.Start(o.envoy, folder, b)
	if err != nil {
		return err
	}
	h.Cleanup(envoy.Kill)
	return m.until(h.Context(), stays, 1)
}

// put registers an instance, or changes it.
func (m *mesh) put(id string, well bool) {
	port := m.backends[id].Listener.Addr().(*net.TCPAddr).Port
	m.registry.put(instance{id: id, address: m.address, port: port, mesh: m.port, well: well})
}

// ask sends one request through Envoy and returns who has answered.
func (m *mesh) ask(ctx context.Context) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", m.port), nil)
	if err != nil {
		return "", err
	}
	request.Host = m.registry.host()
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

const (
	startTimeout = 2 * time.Minute
	// changeTimeout is when a change without effect counts as lost.
	changeTimeout = 30 * time.Second
)

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

// turn is a way to take the second instance out of use, before it is brought back.
type turn struct {
	name  string
	undo  func()
	there bool // the registry has the instance all the while
}

func (m *mesh) turns(s sort) []turn {
	return []turn{
		{s.well, func() { m.put(comes, false) }, true},
		{s.registered, func() { m.registry.remove(comes) }, false},
	}
}

func (o *options) measure(ctx context.Context, m *mesh, in turn) (t times, err error) {
	m.put(comes, true)
	for n := range o.warmup + o.changes {
		in.undo()
		if err := m.until(ctx, stays, quiet); err != nil {
			return t, err
		}
		timing.Settle()
		answered, told, err := m.one(ctx, in.there)
		if err != nil {
			return t, err
		}
		if n >= o.warmup {
			t.answered, t.told = append(t.answered, answered), append(t.told, told)
		}
	}
	return t, nil
}

// one measures how long it takes until the instance that comes and goes answers, from when its
// registration is sent.
func (m *mesh) one(ctx context.Context, there bool) (answered, told time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	tells := m.registry.told(there)
	made := make(chan any, 1)
	begun := time.Now()
	go func() {
		defer func() { made <- recover() }()
		m.put(comes, true)
	}()
	for who := ""; who != comes; {
		if who, err = m.ask(ctx); err != nil {
			return 0, 0, err
		}
	}
	answered = time.Since(begun)
	if failure := <-made; failure != nil {
		panic(failure)
	}
	select {
	case at := <-tells:
		return answered, at.Sub(begun), nil
	case <-ctx.Done():
		return 0, 0, errors.New("a client of the registry's own was told nothing")
	}
}
