package scrape_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/envoy/scrape"
)

// application serves a page of metrics with a Content-Type.
func application(t *testing.T, contentType, page string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, page)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const (
	text = "text/plain; version=0.0.4"
	open = "application/openmetrics-text; version=1.0.0; charset=utf-8"
)

// page returns a Page with such applications as targets.
func page(t *testing.T, settings ...string) *scrape.Page {
	t.Helper()
	p := &scrape.Page{Within: 10 * time.Second, Log: slog.New(slog.DiscardHandler)}
	for _, s := range settings {
		target, err := scrape.Application(s)
		require.NoError(t, err)
		p.Targets = append(p.Targets, target)
	}
	registry := prometheus.NewRegistry()
	p.Own = registry
	p.Register(registry)
	return p
}

func ask(t *testing.T, p *scrape.Page, accept string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.Code)
	return w.Body.String()
}

// parsed parses a page with a strict parser.
func parsed(t *testing.T, page string) int {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	require.NoError(t, err, page)
	return len(families)
}

// theirs removes the agent's own metrics from a page.
func theirs(page string) string {
	var kept strings.Builder
	for line := range strings.Lines(page) {
		if !strings.Contains(line, "pgmesh_mesh_agent_scrape_") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

const textPage = `# a comment
# HELP requests_total Requests, "all" of them.
# TYPE requests_total counter
requests_total{code="200",path="a}b\"c"} 7 1700000000123
requests_total{code="500"} 1

# TYPE depth gauge
depth 3
# HELP hits Hits.
# TYPE hits counter
hits{} 4
# TYPE took histogram
took_bucket{le="0.5"} 1
took_bucket{le="+Inf"} 2
took_sum 1.5
took_count 2
bare NaN
`

func TestSameFormatIsPassedOn(t *testing.T) {
	t.Parallel()
	got := ask(t, page(t, application(t, text, textPage)), text)
	parsed(t, got)
	require.Equal(t, strings.ReplaceAll(strings.ReplaceAll(textPage, "# a comment\n", ""), "\n\n", "\n"), theirs(got))
	require.Contains(t, got, "pgmesh_mesh_agent_scrape_up{target=\"127.0.0.1:")
}

func TestTextBecomesOpenMetrics(t *testing.T) {
	t.Parallel()
	got := ask(t, page(t, application(t, text, textPage)), open)
	require.Equal(t, `# HELP requests Requests, \"all\" of them.
# TYPE requests counter
requests_total{code="200",path="a}b\"c"} 7 1700000000.123
requests_total{code="500"} 1
# TYPE depth gauge
depth 3
# HELP hits Hits.
# TYPE hits unknown
hits{} 4
# TYPE took histogram
took_bucket{le="0.5"} 1
took_bucket{le="+Inf"} 2
took_sum 1.5
took_count 2
# TYPE bare unknown
bare NaN
# EOF
`, theirs(got))
	require.True(t, strings.HasSuffix(got, "# EOF\n"))
	require.Equal(t, 1, strings.Count(got, "# EOF"))
}

const openPage = `# HELP requests Requests, \"all\" of them.
# TYPE requests counter
requests_total{code="200"} 7 1700000000.123 # {trace_id="abc # {"} 1 1700000000
requests_created{code="200"} 1600000000
# TYPE size histogram
# UNIT size bytes
size_bucket{le="+Inf"} 2 # {trace_id="x"} 0.5
size_sum 9
size_count 2
# TYPE build info
build_info{version="1"} 1
# TYPE waiting gaugehistogram
waiting_bucket{le="+Inf"} 4
waiting_gsum 3
waiting_gcount 4
# TYPE odd unknown
odd 1
# EOF
`

func TestOpenMetricsBecomesText(t *testing.T) {
	t.Parallel()
	got := ask(t, page(t, application(t, open, openPage)), text)
	parsed(t, got)
	require.Equal(t, `# HELP requests_total Requests, "all" of them.
# TYPE requests_total counter
requests_total{code="200"} 7 1700000000123
# TYPE size histogram
size_bucket{le="+Inf"} 2
size_sum 9
size_count 2
# TYPE build_info gauge
build_info{version="1"} 1
waiting_bucket{le="+Inf"} 4
waiting_gsum 3
waiting_gcount 4
# TYPE odd untyped
odd 1
`, theirs(got))
}

func TestOpenMetricsIsPassedOn(t *testing.T) {
	t.Parallel()
	got := ask(t, page(t, application(t, open, openPage)), open)
	require.Equal(t, openPage, theirs(got))
}

func TestSharedFamiliesAreDescribedOnce(t *testing.T) {
	t.Parallel()
	const one, two = "# HELP up_to A.\n# TYPE up_to gauge\nup_to 1\n", "# HELP up_to B.\n# TYPE up_to gauge\nup_to{a=\"b\"} 2\n"
	described := []string{"one=" + application(t, text, one), "two=" + application(t, text, two)}
	got := ask(t, page(t, described...), text)
	parsed(t, got)
	require.Equal(t, 1, strings.Count(got, "# TYPE up_to gauge\n"))
	p := page(t, append(described, application(t, text, "up_to{target=\"mine\"} 3\n"))...)
	got = ask(t, p, text)
	parsed(t, got)
	require.LessOrEqual(t, strings.Count(got, "# TYPE up_to gauge\n"), 1, "none, where the one that does not say so is the first to answer")
	require.Contains(t, got, "\nup_to{target=\"one\"} 1\n")
	require.Contains(t, got, "\nup_to{target=\"two\",a=\"b\"} 2\n")
	require.Contains(t, got, "up_to{target=\"mine\"} 3\n")
}

func TestLabelIsAddedOnce(t *testing.T) {
	t.Parallel()
	p := page(t, "cart="+application(t, text, `a 1
b{} 1
c{x="y"} 1
d{x="y", target="other"} 1
e{x="\",target=\"no"} 1
f{ x="y" , } 1
`))
	got := ask(t, p, text)
	parsed(t, got)
	require.Equal(t, `a{target="cart"} 1
b{target="cart"} 1
c{target="cart",x="y"} 1
d{x="y", target="other"} 1
e{target="cart",x="\",target=\"no"} 1
f{target="cart", x="y" , } 1
`, theirs(got))
}

func TestConflictingTypeIsLeftOut(t *testing.T) {
	t.Parallel()
	// Make the second write after the first.
	first := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		<-first
		_, _ = io.WriteString(w, "# TYPE m counter\nm 2\n# TYPE n counter\nn 2\n")
	}))
	t.Cleanup(s.Close)
	p := page(t, application(t, text, "# TYPE m gauge\nm 1\n"), "two="+s.URL)
	p.Targets[0] = after(p.Targets[0], first)
	got := ask(t, p, text)
	parsed(t, got)
	require.Equal(t, "# TYPE m gauge\nm 1\n# TYPE n counter\nn{target=\"two\"} 2\n", theirs(got))
	require.Contains(t, got, `pgmesh_mesh_agent_scrape_conflicts{target="two"} 1`)
	require.Contains(t, got, `pgmesh_mesh_agent_scrape_up{target="two"} 1`)
}

// In OpenMetrics the name of a counter does not have its _total.
func TestCountersThatDifferByTheirEndStayApart(t *testing.T) {
	t.Parallel()
	p := page(t, application(t, text, "# TYPE rq counter\nrq{code=\"200\"} 2\n# TYPE rq_total counter\nrq_total 3\n# TYPE cx_total counter\ncx_total 4\n"))
	got := ask(t, p, open)
	require.Equal(t, "# TYPE rq unknown\nrq{code=\"200\"} 2\n# TYPE rq_total unknown\nrq_total 3\n# TYPE cx counter\ncx_total 4\n# EOF\n", theirs(got))
}

// after returns a channel that is closed when a target was read to its end and written.
func after(t scrape.Target, done chan struct{}) scrape.Target {
	opened := t.Open
	t.Open = func(ctx context.Context, like scrape.Format, q url.Values) (io.ReadCloser, scrape.Format, error) {
		body, format, err := opened(ctx, like, q)
		return closing{body, done}, format, err
	}
	return t
}

type closing struct {
	io.ReadCloser

	done chan struct{}
}

func (c closing) Close() error {
	defer close(c.done)
	return c.ReadCloser.Close()
}

func TestFailedTargetCostsOnlyItself(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(nil)
	closed.Close()
	notFound := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(notFound.Close)
	p := page(t,
		"gone="+closed.URL,
		"none="+notFound.URL,
		"html="+application(t, "text/html; charset=utf-8", "<html>"),
		"lines="+application(t, "", "fine 1\n<html>\nnever 1\n"),
		"label="+application(t, text, "never{a} 1\n"),
		"time="+application(t, text, "never 1 now\n"),
		"value="+application(t, text, "never one\n"),
		"well="+application(t, text, "good 1\n"),
		"late="+application(t, text, "last 1\n"),
	)
	got := ask(t, p, "")
	parsed(t, got)
	for _, line := range []string{"fine{target=\"lines\"} 1", "good{target=\"well\"} 1", "last{target=\"late\"} 1"} {
		require.Contains(t, got, line+"\n")
	}
	require.NotContains(t, got, "never")
	for name, up := range map[string]int{"gone": 0, "none": 0, "html": 0, "lines": 0, "label": 0, "time": 0, "value": 0, "well": 1, "late": 1} {
		require.Contains(t, got, fmt.Sprintf("pgmesh_mesh_agent_scrape_up{target=%q} %d\n", name, up))
		require.Contains(t, got, fmt.Sprintf("pgmesh_mesh_agent_scrape_failures_total{target=%q} %d\n", name, 1-up))
	}
}

func TestSlowTargetTimesOut(t *testing.T) {
	t.Parallel()
	forEver := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun 1\nhalf a li")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-forEver:
		}
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(forEver) })
	said := &strings.Builder{}
	p := page(t, "slow="+s.URL, "quick="+application(t, text, "good 1\n"))
	p.Log, p.Within = slog.New(slog.NewTextHandler(said, nil)), 300*time.Millisecond
	got := ask(t, p, text)
	parsed(t, got)
	require.Contains(t, got, "good{target=\"quick\"} 1\n")
	require.Contains(t, got, "begun{target=\"slow\"} 1\n")
	require.Contains(t, got, `pgmesh_mesh_agent_scrape_up{target="slow"} 0`)
	require.Contains(t, said.String(), `target=slow error="it did not answer within 300ms"`)
	ask(t, p, text)
	require.Equal(t, 1, strings.Count(said.String(), "target=slow"), "it is said once")
}

func TestLargePageIsStreamed(t *testing.T) { // not parallel: it measures the process' memory
	const lines = 600_000
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "# TYPE envoy_cluster_upstream_rq_total counter")
		for i := range lines {
			fmt.Fprintf(w, "envoy_cluster_upstream_rq_total{envoy_cluster_name=\"outbound|8080||service-%d.shop.svc.cluster.local\",a=\"b\",c=\"d\"} %d\n", i, i)
		}
	}))
	t.Cleanup(s.Close)
	p := page(t, s.URL)
	served := httptest.NewServer(p)
	t.Cleanup(served.Close)

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	request, err := http.NewRequest(http.MethodGet, served.URL, nil)
	require.NoError(t, err)
	request.Header.Set("Accept-Encoding", "gzip")
	response, err := http.DefaultTransport.RoundTrip(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, "gzip", response.Header.Get("Content-Encoding"))
	unpacked, err := gzip.NewReader(response.Body)
	require.NoError(t, err)
	buffer, size := make([]byte, 1<<20), 0
	peak := uint64(0)
	for looked := 0; ; {
		n, err := unpacked.Read(buffer)
		size += n
		if size/(1<<22) > looked {
			looked = size / (1 << 22)
			runtime.GC()
			runtime.ReadMemStats(&after)
			peak = max(peak, after.HeapAlloc)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.Greater(t, size, lines*100)
	require.Less(t, int64(peak)-int64(before.HeapAlloc), int64(size/4), "a page of %d MB", size>>20)
}

func TestNegotiation(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]scrape.Format{
		"":    scrape.Text,
		"*/*": scrape.Text,
		open:  scrape.OpenMetrics,
		"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2": scrape.OpenMetrics,
		"application/openmetrics-text;version=2.0.0,text/plain;q=0.1":                                                                                scrape.Text,
		"text/plain;q=0.9,application/openmetrics-text;q=0.1":                                                                                        scrape.Text,
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited,text/plain;version=0.0.4;q=0.3":                  scrape.Text,
		"application/openmetrics-text;q=x,;;":                                                                                                        scrape.Text,
	} {
		require.Equal(t, want, scrape.Negotiate(accept), accept)
	}
}

func TestInvalidTargets(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"", "cart", "127.0.0.1:9090/metrics", "=http://127.0.0.1:9090", "cart=127.0.0.1:9090", "file:///etc/passwd"} {
		_, err := scrape.Application(setting)
		require.ErrorContains(t, err, "--scrape "+setting+": write it as URL or NAME=URL", setting)
	}
	target, err := scrape.Application("http://127.0.0.1:9090/metrics?a=b")
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:9090", target.Name)
}

func FuzzPages(f *testing.F) {
	f.Add(textPage, false, true)
	f.Add(openPage, true, false)
	f.Add("a{b=\"c\\\"} 1\n# TYPE a counter\na_total 1 # {} 1", true, false)
	f.Fuzz(func(t *testing.T, page string, isOpen, wantOpen bool) {
		from, to := scrape.Text, scrape.Text
		if isOpen {
			from = scrape.OpenMetrics
		}
		if wantOpen {
			to = scrape.OpenMetrics
		}
		p := &scrape.Page{Own: prometheus.NewRegistry(), Within: time.Minute, Log: slog.New(slog.DiscardHandler), Targets: []scrape.Target{{
			Name: "any", Label: true, Open: func(context.Context, scrape.Format, url.Values) (io.ReadCloser, scrape.Format, error) {
				return io.NopCloser(strings.NewReader(page)), from, nil
			},
		}}}
		p.Register(prometheus.NewRegistry())
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept", to.ContentType())
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		types := map[string]bool{}
		for line := range strings.Lines(w.Body.String()) {
			if name, isType := strings.CutPrefix(line, "# TYPE "); isType {
				name, _, _ = strings.Cut(name, " ")
				require.False(t, types[name], "%s is described twice", name)
				types[name] = true
			}
		}
	})
}
