package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/bench/host"
	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// mesh is a control plane with a machine that serves the Gateway.
type mesh struct {
	origin

	stack  *stack.Stack
	agent  *stack.Program
	port   int // of the Gateway
	client *http.Client
}

func (o *options) startMesh(h *host.Host, w way) (m *mesh, err error) {
	m = &mesh{client: realenvoy.Client()}
	dir := h.TempDir()
	if m.origin, m.stack, err = w.start(h, o.bin, dir); err != nil {
		return nil, err
	}
	h.Cleanup(m.stack.Stop)
	if err := m.stack.Start(h.Context()); err != nil {
		return nil, err
	}
	if m.port, err = realenvoy.FreePort(); err != nil {
		return nil, err
	}
	served, err := serve(h)
	if err != nil {
		return nil, err
	}
	if err := m.prepare(h.Context(), m.port, served); err != nil {
		return nil, err
	}
	return m, m.startGateway(h, o.envoy)
}

// serve starts the backends.
func serve(h *host.Host) (all []endpoint, err error) {
	address, err := host.Address()
	if err != nil {
		return nil, err
	}
	for _, name := range backends {
		s, err := h.Backend(address, name)
		if err != nil {
			return nil, err
		}
		all = append(all, endpoint{name, address, s.Listener.Addr().(*net.TCPAddr).Port})
	}
	return all, nil
}

// startGateway starts an agent with its Envoy, and waits for the first route.
func (m *mesh) startGateway(h *host.Host, envoy string) error {
	agent, err := m.stack.Agent(envoy, "edge-1", "--role", "gateway", "--gateway", gateway, "--namespace", namespace)
	if err != nil {
		return err
	}
	m.agent = agent
	if err := agent.Start(); err != nil {
		return err
	}
	h.Cleanup(agent.Stop)
	if err := agent.Ready(h.Context()); err != nil {
		return fmt.Errorf("the gateway does not start: %w\n%s", err, agent.Log())
	}
	first := route{name: "first"}
	if err := m.write(h.Context(), marked(first, backend, "first")); err != nil {
		return err
	}
	return m.until(h.Context(), first, "/", "first")
}

// ask sends one request through the gateway, and returns who answered and which mark the answer bears.
func (m *mesh) ask(ctx context.Context, r route, path string) (status int, who, mark string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", m.port, path), nil)
	if err != nil {
		return 0, "", "", err
	}
	request.Host = r.host()
	response, err := m.client.Do(request)
	if err != nil {
		return 0, "", "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), response.Header.Get(header), err
}

const (
	// startTimeout bounds the wait for what comes first.
	startTimeout = time.Minute
	// changeTimeout is when a change without effect counts as lost.
	changeTimeout = 30 * time.Second
	// askEvery lies between an answer and the next request. Who asks without a pause takes a processor
	// from what is measured.
	askEvery = time.Millisecond
)

// until waits until a route answers with a mark, while the gateway may not listen yet.
func (m *mesh) until(ctx context.Context, r route, path, mark string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		status, _, got, err := m.ask(ctx, r, path)
		if err == nil && status == http.StatusOK && got == mark {
			return nil
		}
		if !wait.For(ctx, 10*time.Millisecond) { // Envoy does not report when it has a configuration
			return fmt.Errorf("the gateway does not answer by %s: %d, %w", r.name, status, errors.Join(err, ctx.Err()))
		}
	}
}

// answered writes a route, and returns how long it takes until an answer bears its mark. In the meantime
// nothing else is answered than by what was there before.
func (m *mesh) answered(ctx context.Context, r route, path, mark string, before int) (took, wrote time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	begun := time.Now()
	if err := m.write(ctx, r); err != nil {
		return 0, 0, err
	}
	wrote = time.Since(begun)
	for asked := 0; ; asked++ {
		status, _, got, err := m.ask(ctx, r, path)
		switch {
		case err != nil:
			return 0, 0, fmt.Errorf("after %s was written, and %d answers by what was there before: %w", r.name, asked, err)
		case status == http.StatusOK && got == mark:
			return time.Since(begun), wrote, nil
		case status != before:
			return 0, 0, fmt.Errorf("after %s was written, the gateway answered with %d", r.name, status)
		}
		wait.For(ctx, askEvery) // the next request tells when the time is over
	}
}

const endOfLog = 4 << 10

// logs returns the ends of what the programs have logged.
func (m *mesh) logs() string {
	var all strings.Builder
	for _, p := range []*stack.Program{m.stack.MCPServer, m.stack.Discovery, m.agent} {
		text := p.Log()
		fmt.Fprintf(&all, "…%s\n", text[max(0, len(text)-endOfLog):])
	}
	return all.String()
}
