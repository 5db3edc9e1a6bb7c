package e2e

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/deploy/grafana"
	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/promtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// changing is a change of a route that proxies use.
const changing = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: api, namespace: shop}
spec: {hosts: [api.mesh], http: [{timeout: 10.%03ds, route: [{destination: {host: api.mesh}}]}]}
`

// observed is a mesh of two machines that a Prometheus scrapes, which finds them by mcp-server.
type observed struct {
	*secureMesh
	api        string
	prometheus *promtest.Prometheus
}

func newObserved(t *testing.T) *observed {
	t.Helper()
	database := pgtest.New(t)
	control, err := stack.NewSecure(bin, t.TempDir(), database, nil)
	require.NoError(t, err)
	api, err := freeport.Address()
	require.NoError(t, err)
	control.ServerFlags("--api", api)
	t.Cleanup(func() {
		control.Stop()
		if t.Failed() {
			t.Logf("mcp-server's log:\n%s\ndiscovery's log:\n%s", control.MCPServer.Log(), control.Discovery.Log())
		}
	})
	require.NoError(t, control.Start(t.Context()))
	return &observed{secureMesh: &secureMesh{meshWithoutEnvoy(t, control, database)}, api: api}
}

// scrapedBy starts a Prometheus for the control plane and the agents. All agents show their pages at
// one address here, also those with an address of their own, so each is found by its port.
func (o *observed) scrapedBy(agents map[string]*stack.Program) {
	o.t.Helper()
	folder := o.t.TempDir()
	token, err := o.BearerToken(o.t.Context(), "prometheus", "--scope", "read:*")
	require.NoError(o.t, err)
	require.NoError(o.t, os.WriteFile(filepath.Join(folder, "token"), []byte(token), 0o600))
	var config strings.Builder
	fmt.Fprintf(&config, `
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: pgmesh-control-plane
  static_configs: [{targets: ['%s', '%s']}]
- job_name: pgmesh-machines
  metrics_path: /stats/prometheus
  http_sd_configs:
`, o.MCPServer.HTTP(), o.Discovery.HTTP())
	var found []string
	for name, agent := range agents {
		_, port, _ := strings.Cut(agent.HTTP(), ":")
		fmt.Fprintf(&config, `  - url: https://%s/v1/scrape-targets?port=%s
    refresh_interval: 1s
    authorization: {credentials_file: token}
    tls_config: {ca_file: %s}
`, o.api, port, o.Roots())
		found = append(found, name+";.*:"+port)
	}
	fmt.Fprintf(&config, `  relabel_configs:
  - {action: keep, source_labels: [proxy, __address__], regex: '%s'}
  - {source_labels: [__address__], target_label: __address__, regex: '.*:(.*)', replacement: '127.0.0.1:$1'}
  - {action: labelmap, regex: __meta_pgmesh_label_(app|version)}
`, strings.Join(found, "|"))
	o.prometheus = promtest.Start(o.t, folder, config.String())
}

// Every query of every dashboard gives something of a mesh with traffic.
func TestDashboardsShowAMesh(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	c := countingOn(t, o.secureMesh)
	o.scrapedBy(map[string]*stack.Program{"server": c.server, "client": c.client})
	eventually(t, func(context.Context) error { return c.traffic() })
	o.isScraped(`up{job="pgmesh-machines", app="web", workload="web", namespace="bank", service_account="teller", discovery="first"}`)
	o.isScraped(`up{job="pgmesh-machines", proxy="server"}`)

	t.Run("metrics.md", func(t *testing.T) {
		t.Parallel()
		for _, p := range []*stack.Program{o.MCPServer, o.Discovery, c.client} {
			asReferred(t, p)
		}
	})
	t.Run("dashboards of Istio", func(t *testing.T) {
		t.Parallel()
		for _, query := range queriesOfIstio() {
			o.gives(t, c, query)
		}
	})
	for _, d := range grafana.All() {
		t.Run(d.File, func(t *testing.T) {
			t.Parallel()
			for _, row := range d.Rows {
				for _, p := range row.Panels {
					for _, q := range p.Queries {
						o.gives(t, c, q.Plain("15s"))
					}
				}
			}
		})
	}
}

// traffic is a request that succeeds, one that fails, a call of gRPC and a TCP connection.
func (c *counting) traffic() error {
	for path, want := range map[string]int{"/": http.StatusOK, failing: http.StatusInternalServerError} {
		if got, err := c.getPath("127.0.0.2:"+c.toHTTP, path); err != nil || got != want {
			return fmt.Errorf("%s is answered %d, want %d: %w", path, got, want, err)
		}
	}
	return errors.Join(c.call("127.0.0.2:"+c.toGRPC), c.speak("127.0.0.2:"+c.tap))
}

// isScraped waits until Prometheus has reached a target, which has the labels of the mesh.
func (o *observed) isScraped(target string) {
	o.t.Helper()
	eventually(o.t, func(ctx context.Context) error {
		up, err := o.prometheus.Query(ctx, target+" == 1")
		if err == nil && len(up) != 1 {
			err = fmt.Errorf("%d targets are %s: %s", len(up), target, o.prometheus.Targets(ctx))
		}
		return err
	})
}

// gives asks until a query gives a number, while traffic goes on and routes change.
func (o *observed) gives(t *testing.T, c *counting, query string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if err := c.traffic(); err != nil {
			return err
		}
		o.commit(fmt.Sprintf(changing, time.Now().UnixNano()%1000+1))
		samples, err := o.prometheus.Query(ctx, query)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(samples, func(s promtest.Sample) bool { return !math.IsNaN(s.Value) }) {
			return fmt.Errorf("%s gives %v", query, samples)
		}
		return nil
	})
}
