package scrape

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/standardmetrics"
)

// Whatever a client's certificate and its requests say, Prometheus can read the page, and other
// series have what they had. A sample that Envoy does not write so costs no other.
func FuzzStandardMetrics(f *testing.F) {
	f.Add("shop;web;v1;web;v1;", "here", "")
	f.Add("a\nb\"c\\}=^{;,le=\"5\",;\x00;;", "\xff\xfe\",le=\"1\"} 5\nx", `istio="x",le="`)
	f.Add(strings.Repeat("\\\"", 200), strings.Repeat("é", 200), `istio_without="response_code"} 1e999`)
	f.Add("", "", `} NaN`)
	f.Fuzz(func(t *testing.T, alias, value, line string) {
		series := func(peer string) string {
			return tagOf(standardmetrics.Series{
				Reporter: standardmetrics.Destination, Own: standardmetrics.Workload{Namespace: "bank", Service: "vault"},
				Protocol: standardmetrics.HTTP, Code: "200", PeerID: "spiffe://cluster.local/ns/shop/sa/web", Service: "vault.bank", Peer: peer,
			})
		}
		strange := fmt.Sprintf(`{istio="%s",value="%s"} `, series(alias), escaper.Replace(value))
		page := "# TYPE envoy_istio_requests_total counter\nenvoy_istio_requests_total" + strange + "3\n" +
			"envoy_istio_requests_total{" + strings.ReplaceAll(line, "\n", " ") + "\nenvoy_istio_requests_total{istio=\"" + series("shop;other;v1;other;v1;") + "\"} 7\n" +
			"# TYPE envoy_istio_request_bytes histogram\nenvoy_istio_request_bytes_bucket" + strings.Replace(strange, "} ", `,le="+Inf"} `, 1) + "3\n" +
			"envoy_istio_request_bytes_sum" + strange + "30\nenvoy_istio_request_bytes_count" + strange + "3\n"
		families := pageOf(t, page)
		require.Equal(t, 7, counted(families, "source_workload", "other"), "a series of somebody else")
		require.Equal(t, 3, counted(families, "value", strings.ToValidUTF8(value, "_")), "the strange one")
	})
}

// pageOf is the whole page with Envoy's part, as Prometheus reads it.
func pageOf(t *testing.T, envoys string) map[string]*dto.MetricFamily {
	t.Helper()
	p := &Page{Own: prometheus.NewRegistry(), Within: time.Minute, Log: slog.New(slog.DiscardHandler), Targets: []Target{{
		Name: "envoy", Open: func(context.Context, Format, url.Values) (io.ReadCloser, Format, error) {
			return newStandardReader(io.NopCloser(strings.NewReader(envoys)), func(string, []byte) {}, func() {}), Text, nil
		},
	}}}
	p.Register(prometheus.NewRegistry())
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(w.Body.String()))
	require.NoError(t, err, "%q", w.Body.String())
	return families
}

// counted are the requests of the series with a label.
func counted(families map[string]*dto.MetricFamily, label, value string) (n int) {
	for _, m := range families["istio_requests_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == label && l.GetValue() == value {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}
