package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/internal/testbench/usage"
	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// member is the measurement of one machine.
type member struct {
	join   time.Duration // of mesh-agent join
	ready  time.Duration // from then until the agent reports that Envoy is ready
	answer time.Duration // from then until the first answer
	back   time.Duration // from the death of Envoy until the next one answers

	rss, pss int64 // of the agent, in bytes
	clusters int   // accepted by its Envoy
}

func (j *member) whole() time.Duration { return j.join + j.ready + j.answer }

func (j *member) String() string {
	return fmt.Sprintf("first answer after %s, agent %s, back after %s", milliseconds(j.whole()), megabytes(j.rss), milliseconds(j.back))
}

// measure lets a machine join, use the mesh, lose its Envoy and leave, and deletes its state.
func (m *mesh) measure(ctx context.Context, name string) (*member, error) {
	token, err := m.stack.GroupToken(ctx, "shop/web")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(m.stack.State(name))
	waiting, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	var j member
	begun := time.Now()
	p, err := m.agent(waiting, name, token)
	if err != nil {
		return nil, err
	}
	j.join = time.Since(begun)
	if err := p.Start(); err != nil {
		return nil, err
	}
	defer p.Stop()
	if err := m.first(waiting, p, begun, &j); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", name, err, p.Log())
	}
	if !wait.For(ctx, m.options.rest) {
		return nil, ctx.Err()
	}
	j.rss, j.pss = usage.MemoryOf(p.Pid()).Now, usage.ProportionalOf(p.Pid())
	if err := m.restart(ctx, name, &j); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", name, err, p.Log())
	}
	return &j, nil
}

// first waits for the first answer.
func (m *mesh) first(ctx context.Context, p *stack.Program, begun time.Time, j *member) error {
	if err := p.Ready(ctx); err != nil {
		return err
	}
	j.ready = time.Since(begun) - j.join
	who, err := m.answered(ctx)
	if err != nil {
		return err
	}
	j.answer = time.Since(begun) - j.join - j.ready
	if !strings.Contains(who, "/ns/shop/sa/web") {
		return fmt.Errorf("the server has not been called by mutual TLS: it was told that the client is %q", who)
	}
	return nil
}

// pollInterval is how often to check for the measured event.
const pollInterval = 2 * time.Millisecond

// answered waits until a request through the machine's Envoy is answered.
func (m *mesh) answered(ctx context.Context) (string, error) {
	for {
		who, err := m.ask(ctx, "127.0.0.1")
		if err == nil {
			return who, nil
		}
		if !wait.For(ctx, pollInterval) {
			return "", fmt.Errorf("no request is answered: %w", err)
		}
	}
}

// restart kills a machine's Envoy and waits for the next. It does so only once per machine: an
// Envoy that dies repeatedly is restarted later each time.
func (m *mesh) restart(ctx context.Context, name string, j *member) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	found, err := m.status(ctx, name)
	if err != nil {
		return err
	}
	j.clusters = found.XDS.Resources["clusters"]
	j.back, err = m.killEnvoy(ctx, found.Envoy.PID)
	return err
}

// status asks an agent for its status.
func (m *mesh) status(ctx context.Context, name string) (*status.Report, error) {
	out, err := m.stack.Run(ctx, "mesh-agent", "status", "-o", "json", "--state-dir", m.stack.State(name))
	if err != nil {
		return nil, fmt.Errorf("ask for the status: %w\n%s", err, out)
	}
	var found status.Report
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return nil, fmt.Errorf("understand the status: %w", err)
	}
	if found.XDS == nil || found.Envoy == nil || found.Envoy.PID <= 0 {
		return nil, fmt.Errorf("the status names no Envoy: %s", out)
	}
	return &found, nil
}

// killEnvoy returns how long after its death requests are answered again.
func (m *mesh) killEnvoy(ctx context.Context, pid int) (time.Duration, error) {
	killed := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		return 0, fmt.Errorf("kill Envoy: %w", err)
	}
	for !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) { // so that the dying Envoy cannot answer
		if !wait.For(ctx, pollInterval) {
			return 0, fmt.Errorf("the Envoy %d that was killed is still there: %w", pid, ctx.Err())
		}
	}
	_, err := m.answered(ctx)
	return time.Since(killed), err
}
