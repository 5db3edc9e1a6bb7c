package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// mode is what both Envoys do at each request.
type mode struct {
	name          string
	metrics, logs bool
}

var modes = []mode{{name: "none"}, {name: "metrics", metrics: true}, {name: "logs", logs: true}, {name: "both", metrics: true, logs: true}}

func (m mode) resources() string {
	counted := "overrides: [{match: {metric: ALL_METRICS}, disabled: true}]"
	if m.metrics {
		counted = "providers: [{name: prometheus}]"
	}
	return fmt.Sprintf(`
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: mesh, namespace: istio-system}
spec: {metrics: [{%s}]}
`, counted) + m.logging("payments") + m.logging("shop")
}

// logging is for the machine in a namespace: each has a file of its own.
func (m mode) logging(namespace string) string {
	logged := "disabled: true"
	if m.logs {
		logged = fmt.Sprintf("providers: [{name: %s}]", namespace)
	}
	return fmt.Sprintf(`---
apiVersion: telemetry.istio.io/v1
kind: Telemetry
metadata: {name: logs, namespace: %s}
spec: {accessLogging: [{%s}]}
`, namespace, logged)
}

// enter has all proxies be in a mode.
func (m *mesh) enter(ctx context.Context, to mode) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if err := m.apply(ctx, to.resources(), "--wait", "--wait-timeout", waitTimeout.String()); err != nil {
		return fmt.Errorf("turn %s on: %w", to.name, err)
	}
	for {
		err := m.probe(ctx, to)
		if err == nil {
			return nil
		}
		if !wait.For(ctx, countInterval) {
			return fmt.Errorf("%s is not on: %w", to.name, err)
		}
	}
}

// probe sends some requests, which have to be counted and logged as the mode says. Those over
// connections from before a change are not.
func (m *mesh) probe(ctx context.Context, in mode) error {
	before, err := m.counts(ctx)
	if err != nil {
		return err
	}
	const requests = 20
	for range requests {
		if err := m.through().once(ctx); err != nil {
			return err
		}
	}
	return m.counted(ctx, in, before, requests)
}

// counts is how many requests the Envoys have counted and logged: the client's, then the server's.
type counts struct{ metrics, logs [2]int }

// countInterval is how often it is looked whether everything has been counted.
const countInterval = 50 * time.Millisecond

// counted waits until as many requests as were sent have been counted and logged, if the mode does
// so, and none if not.
func (m *mesh) counted(ctx context.Context, in mode, before counts, sent int) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	want := before
	for i := range 2 {
		if in.metrics {
			want.metrics[i] += sent
		}
		if in.logs {
			want.logs[i] += sent
		}
	}
	for {
		now, err := m.counts(ctx)
		if err == nil && now == want {
			return nil
		}
		if err == nil {
			err = fmt.Errorf("after %d requests with %s, counts went from %v to %v, and not to %v", sent, in.name, before, now, want)
		}
		if !wait.For(ctx, countInterval) {
			return err
		}
	}
}

func (m *mesh) counts(ctx context.Context) (c counts, err error) {
	for i, one := range []*machine{m.client, m.server} {
		if c.metrics[i], err = requestsOn(ctx, one.agent); err != nil {
			return c, err
		}
		if c.logs[i], err = linesIn(one.log); err != nil {
			return c, err
		}
	}
	return c, nil
}

// requestsOn is how many requests an agent's page has between workloads that know each other. At
// the server they are those with mutual TLS.
func requestsOn(ctx context.Context, p *stack.Program) (requests int, err error) {
	err = readPage(ctx, p, func(line []byte) error {
		if !bytes.HasPrefix(line, []byte("istio_requests_total{")) || !bytes.Contains(line, []byte(known)) {
			return nil
		}
		if bytes.Contains(line, []byte(`reporter="destination"`)) && !bytes.Contains(line, []byte(`connection_security_policy="mutual_tls"`)) {
			return fmt.Errorf("a request came without mutual TLS: %s", line)
		}
		n, err := strconv.Atoi(string(line[bytes.LastIndexByte(line, ' ')+1:]))
		requests += n
		return err
	})
	return requests, err
}

// known is in series whose client is known by its certificate.
const known = `source_principal="spiffe://` + trustDomain + `/ns/`

// readPage reads an agent's page of its Envoy's metrics, line by line.
func readPage(ctx context.Context, p *stack.Program, line func([]byte) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.HTTP()+"/stats/prometheus", nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the page of metrics answers %s", response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := line(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// linesIn is how many lines a file has, 0 without one.
func linesIn(file string) (int, error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var n lines
	_, err = io.Copy(&n, f)
	return int(n), err
}

// lines counts the lines that are written to it.
type lines int

func (l *lines) Write(text []byte) (int, error) {
	*l += lines(bytes.Count(text, []byte("\n")))
	return len(text), nil
}
