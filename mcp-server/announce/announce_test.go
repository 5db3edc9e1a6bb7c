package announce_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/announce"
	"github.com/pgmesh/pgmesh/mcp-server/publish"
	announcing "github.com/pgmesh/pgmesh/registry/announce"
	"github.com/pgmesh/pgmesh/registry/service"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reader keeps what is wanted.
type reader struct {
	selection announcing.Selection

	mu  sync.Mutex
	now *announcing.Services
}

func (*reader) Name() string { return "reader" }

func (r *reader) Selection() announcing.Selection { return r.selection }

func (r *reader) Run(ctx context.Context, wanted *announcing.Wanted, reports announcing.Reports) error {
	reports.Away(errors.New("first"))
	reports.Bad(map[string]error{"shop/b": errors.New("has no port"), "shop/a": errors.New("has no name")})
	for {
		now, changed := wanted.Now()
		r.mu.Lock()
		r.now = now
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// wants waits until these services are wanted, each with its addresses.
func (r *reader) wants(t *testing.T, wanted ...string) *announcing.Services {
	t.Helper()
	var now *announcing.Services
	poll.Eventually(t, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if now = r.now; now == nil {
			return errors.New("nothing is known to be wanted")
		}
		var got []string
		for resource, s := range now.All {
			words := []string{resource, "as", s.Name}
			for _, i := range s.Instances {
				words = append(words, fmt.Sprintf("%s:%d %v", i.Address, i.Ports["http"], i.Health == service.Healthy))
			}
			got = append(got, strings.Join(words, " "))
		}
		if slices.Sort(got); !slices.Equal(got, wanted) {
			return fmt.Errorf("%q are wanted, not %q", got, wanted)
		}
		return nil
	})
	return now
}

// resources parses YAML into what is served.
func resources(t *testing.T, yaml string) map[*kinds.Kind][]*served.Resource {
	t.Helper()
	documents, err := kinds.Parser{DefaultNamespace: "shop"}.Parse("test.yaml", []byte(yaml))
	require.NoError(t, err)
	out := map[*kinds.Kind][]*served.Resource{}
	for _, d := range documents {
		version := fmt.Sprintf("%p", d.Resource)
		body, err := d.Resource.Any(version)
		require.NoError(t, err)
		out[d.Resource.Kind] = append(out[d.Resource.Kind], served.NewResource(d.Resource.Key().FullName(), version, body))
	}
	return out
}

func entry(namespace, name, annotations, rest string) string {
	return fmt.Sprintf(`
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[2]s, namespace: %[1]s, annotations: {%[3]s}}
spec: {hosts: [%[2]s.example], ports: [{number: 80, name: http, protocol: HTTP}], resolution: STATIC, %[4]s}
`, namespace, name, annotations, rest)
}

func workload(address, annotations string) string {
	return fmt.Sprintf(`
---
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: w, namespace: shop, annotations: {%s}}
spec: {address: %s, labels: {app: web}}
`, annotations, address)
}

func run(t *testing.T, selection announcing.Selection) (*publish.Publisher, *reader, *announce.Announcements) {
	t.Helper()
	metrics := prometheus.NewRegistry()
	p, r := publish.New(metrics), &reader{selection: selection}
	a := announce.New(p, slog.New(slog.DiscardHandler), metrics, []announcing.Announcer{r})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
	return p, r, a
}

const on = `pgmesh.io/announce: "true"`

func TestWhatIsAnnotatedIsWanted(t *testing.T) {
	t.Parallel()
	p, r, _ := run(t, announcing.Selection{Namespaces: []string{"shop"}})
	p.Begin(publish.Source{Name: publish.Database, Mesh: "m"})
	at := publish.Position{Revision: 1}
	selecting := "workloadSelector: {labels: {app: web}}"
	p.Replace(publish.Content{Resources: resources(t, entry("shop", "web", on, selecting)+workload("10.0.0.1", "")+
		entry("shop", "named", `pgmesh.io/announce: other`, `endpoints: [{address: 10.0.0.9, ports: {http: 8080}}]`)+
		entry("shop", "silent", "", "endpoints: [{address: 10.0.0.9}]")+
		entry("shop", "foreign", on+`, pgmesh.io/origin: consul`, "endpoints: [{address: 10.0.0.9}]")+
		entry("strange", "web", on, "endpoints: [{address: 10.0.0.9}]"))}, at)
	first := r.wants(t, "shop/named as other 10.0.0.9:8080 true", "shop/web as web 10.0.0.1:80 true")
	require.Equal(t, "m", first.Mesh)

	at.Revision++
	p.Apply(publish.Changes{Upserts: resources(t, workload("10.0.0.1", `mesh.pgmesh.io/health: "unhealthy: it burns"`))}, at)
	second := r.wants(t, "shop/named as other 10.0.0.9:8080 true", "shop/web as web 10.0.0.1:80 false")
	require.Same(t, first.All["shop/named"], second.All["shop/named"], "what has not changed is shared")

	at.Revision++
	p.Apply(publish.Changes{Upserts: resources(t, entry("shop", "named", "", ""))}, at)
	r.wants(t, "shop/web as web 10.0.0.1:80 false")
}

// Every service is announced but those that are kept back.
func TestEveryService(t *testing.T) {
	t.Parallel()
	p, r, _ := run(t, announcing.Selection{Every: true})
	p.Replace(publish.Content{Resources: resources(t, entry("shop", "web", "", "")+entry("shop", "back", `pgmesh.io/announce: "false"`, ""))}, publish.Position{Revision: 1})
	r.wants(t, "shop/web as web")
}

// While the source is away nothing is known to be wanted.
func TestAStaleServerWantsNothing(t *testing.T) {
	t.Parallel()
	p, r, _ := run(t, announcing.Selection{Every: true})
	p.Replace(publish.Content{Resources: resources(t, entry("shop", "web", "", ""))}, publish.Position{Revision: 1})
	r.wants(t, "shop/web as web")
	p.Lost(errors.New("the database is away"))
	poll.Eventually(t, func(context.Context) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.now != nil {
			return errors.New("it is still wanted")
		}
		return nil
	})
	p.Stand(publish.Source{Name: publish.Database})
	r.wants(t, "shop/web as web")
}

func TestPeopleAreTold(t *testing.T) {
	t.Parallel()
	_, _, a := run(t, announcing.Selection{})
	const text = "services cannot be announced as reader: first; 2 services cannot be announced as reader as they are, such as shop/a: has no name"
	poll.Within(t, time.Minute, func(context.Context) error {
		if got := a.About(); got != text {
			return errors.New(got)
		}
		return nil
	})
}
