package e2e

import (
	"context"
	"fmt"
	"math"
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

// pendingMetrics begin the names of metrics that no proxy makes yet. Their queries are not asked.
const pendingMetrics = "istio_"

// changing is a change of a route that proxies use.
const changing = `
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: ledger, namespace: shop}
spec: {hosts: [ledger.mesh], http: [{timeout: 10.%03ds, route: [{destination: {host: ledger.mesh}}]}]}
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

// scrapedBy starts a Prometheus for the control plane and the agents. All agents have one address
// here, so each is found by its port.
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
  - {action: labelmap, regex: __meta_pgmesh_label_(app|version)}
`, strings.Join(found, "|"))
	o.prometheus = promtest.Start(o.t, folder, config.String())
}

// Every query of every dashboard gives something of a mesh with traffic.
func TestDashboardsShowAMesh(t *testing.T) {
	t.Parallel()
	m := newObserved(t)
	const client = "127.0.0.41"
	m.commit(m.workload("ledger", newPort(t), newBackend(t, "ledger", nil)), m.egressOn("shop", "cart", client, "shop"))
	ledger := m.member("shop/ledger", "ledger.shop", "--labels", "app=ledger")
	cart := m.member("shop/cart", "cart.shop", "--labels", "app=cart")
	m.scrapedBy(map[string]*stack.Program{"ledger.shop": ledger, "cart.shop": cart})
	m.becomes(client, "ledger.mesh", 200)
	m.isScraped(`up{job="pgmesh-machines", app="cart", workload="cart", namespace="shop", service_account="cart", discovery="first"}`)
	m.isScraped(`up{job="pgmesh-machines", proxy="ledger.shop"}`)

	t.Run("metrics.md", func(t *testing.T) {
		t.Parallel()
		for _, p := range []*stack.Program{m.MCPServer, m.Discovery, cart} {
			asReferred(t, p)
		}
	})
	for _, d := range grafana.All() {
		t.Run(d.File, func(t *testing.T) {
			t.Parallel()
			for _, row := range d.Rows {
				for _, p := range row.Panels {
					for _, q := range p.Queries {
						if !strings.Contains(q.Expression, pendingMetrics) {
							m.gives(t, client, q)
						}
					}
				}
			}
		})
	}
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

// gives asks until a query gives a number, while requests go on.
func (o *observed) gives(t *testing.T, client string, q grafana.Query) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		if _, err := o.asks(ctx, client, "ledger.mesh"); err != nil {
			return err
		}
		o.commit(fmt.Sprintf(changing, time.Now().UnixNano()%1000+1))
		samples, err := o.prometheus.Query(ctx, q.Plain("15s"))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(samples, func(s promtest.Sample) bool { return !math.IsNaN(s.Value) }) {
			return fmt.Errorf("%s gives %v", q.Plain("15s"), samples)
		}
		return nil
	})
}
