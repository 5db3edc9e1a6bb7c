package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/bench/timing"
	"github.com/pgmesh/pgmesh/internal/testbench/realenvoy"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// What the proxy uses of the mesh.
const (
	leanUses      = 10
	leanEndpoints = 5
)

// benchLean measures the memory of an Envoy that uses a few of many services, for each way to keep
// the others from it.
func benchLean(ctx context.Context, o options) error {
	dir, remove, err := built(ctx, "discovery", "mesh-agent")
	if err != nil {
		return err
	}
	defer remove()
	backend := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer backend.Close()
	fmt.Fprintf(os.Stdout, "\nAn Envoy in a mesh of %d services with %d endpoints each, after %d of them were asked once\n\n", o.services, leanEndpoints, leanUses)
	fmt.Fprintf(os.Stdout, "%-34s %12s %12s %10s %10s %16s\n", "", "allocated", "received", "clusters", "ready", "first answer")
	for _, way := range leanWays(o.services) {
		w, err := weighLean(ctx, o, dir, portOf(backend.Listener.Addr()), way.text)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		fmt.Fprintf(os.Stdout, "%-34s %12s %12s %10d %10s %8s %7s\n", way.name, megabytes(w.allocated), kilobytes(w.received), w.clusters,
			millis(w.ready), millis(timing.Percentile(w.first, 50)), millis(timing.Percentile(w.first, 100)))
	}
	return nil
}

func portOf(a net.Addr) string {
	_, port, _ := net.SplitHostPort(a.String())
	return port
}

// read reads a page of Envoy's admin interface.
func read(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

func kilobytes(n int64) string { return fmt.Sprintf("%d KB", n>>10) }

// leanWays lists the ways, as files of the mesh.
func leanWays(services int) []struct{ name, text string } {
	used := make([]string, leanUses)
	for i := range used {
		used[i] = "./" + leanHost(i)
	}
	all := func(exported func(i int) string) string {
		var b strings.Builder
		for i := range services {
			b.WriteString(leanService(i, exported(i)))
		}
		return b.String()
	}
	everything := all(func(int) string { return "*" })
	return []struct{ name, text string }{
		{"all that there is", everything},
		{"a Sidecar that lists what is used", everything + `---
{apiVersion: networking.istio.io/v1, kind: Sidecar, metadata: {name: default}, spec: {egress: [{hosts: [` + strings.Join(used, ", ") + `]}]}}
`},
		{"exportTo of what is not used", all(func(i int) string { return map[bool]string{true: "*", false: "elsewhere"}[i < leanUses] })},
		{"on demand", everything + `---
{apiVersion: networking.istio.io/v1beta1, kind: ProxyConfig, metadata: {name: default}, spec: {environmentVariables: {ISTIO_META_ON_DEMAND: "true"}}}
`},
	}
}

func leanHost(i int) string { return fmt.Sprintf("service-%d.mesh", i) }

// Placeholders for values that are known only when the files are written.
const portPlace, backendPlace = "@port@", "@backend@"

func leanService(i int, exportTo string) string {
	endpoints := slices.Repeat([]string{"{address: 127.0.0.1, ports: {http: " + backendPlace + "}}"}, leanEndpoints)
	return fmt.Sprintf(`---
{apiVersion: networking.istio.io/v1, kind: ServiceEntry, metadata: {name: service-%d}, spec: {hosts: [%s], exportTo: [%q], location: MESH_INTERNAL,
  resolution: STATIC, ports: [{number: %s, name: http, protocol: HTTP}], endpoints: [%s]}}
`, i, leanHost(i), exportTo, portPlace, strings.Join(endpoints, ", "))
}

// weight is the measurement of an Envoy.
type weight struct {
	allocated, received int64
	clusters            int
	ready               time.Duration
	first               []time.Duration // of each service
}

// weighLean starts discovery and an Envoy for a mesh, and calls the used services.
func weighLean(ctx context.Context, o options, dir, backend, text string) (w weight, err error) {
	port, err := realenvoy.FreePort()
	if err != nil {
		return w, err
	}
	files, err := os.MkdirTemp(dir, "mesh-")
	if err != nil {
		return w, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	text = strings.NewReplacer(portPlace, strconv.Itoa(port), backendPlace, backend).Replace(text)
	if err := os.WriteFile(filepath.Join(files, "mesh.yaml"), []byte(text), 0o600); err != nil {
		return w, err
	}
	control, err := stack.NewFromDirectory(dir, dir, files)
	if err != nil {
		return w, err
	}
	defer control.Stop()
	if err := control.Start(ctx); err != nil {
		return w, err
	}
	agent, err := control.Agent(o.envoy, "lean.default", "--namespace", "default", "--concurrency", "2", "--drain-time", "0s")
	if err != nil {
		return w, err
	}
	start := time.Now()
	if err := agent.Start(); err != nil {
		return w, err
	}
	defer agent.Stop()
	if err := agent.Ready(ctx); err != nil {
		return w, err
	}
	w.ready = time.Since(start)
	for i := range leanUses {
		took, err := firstAnswer(ctx, address, leanHost(i))
		if err != nil {
			return w, err
		}
		w.first = append(w.first, took)
	}
	slices.Sort(w.first)
	return w, w.ask(ctx, agent.Admin)
}

func firstAnswer(ctx context.Context, address, host string) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Host = host
	start := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0, err
	}
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s: %s", host, resp.Status)
	}
	return time.Since(start), nil
}

// ask reads Envoy's statistics.
func (w *weight) ask(ctx context.Context, admin string) error {
	var memory struct{ Allocated string }
	text, err := read(ctx, "http://"+admin+"/memory")
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(text), &memory); err != nil {
		return err
	}
	if w.allocated, err = strconv.ParseInt(memory.Allocated, 10, 64); err != nil {
		return err
	}
	if text, err = read(ctx, "http://"+admin+"/stats?filter=^cluster(_manager.active_clusters|.xds-grpc.upstream_cx_rx_bytes_total)$"); err != nil {
		return err
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if strings.HasSuffix(name, "active_clusters") {
			w.clusters = int(n)
		} else {
			w.received = n
		}
	}
	return nil
}
