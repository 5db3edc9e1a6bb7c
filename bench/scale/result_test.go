package main

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var anyTime = time.Unix(1, 0)

func TestPercentiles(t *testing.T) {
	t.Parallel()
	var times []time.Duration
	for i := range 200 {
		times = append(times, time.Duration(200-i)*time.Millisecond)
	}
	require.Equal(t, spread{Mean: 100.5, P50: 100, P95: 190, P99: 198, Max: 200}, spreadOf(times))
	require.Equal(t, 200*time.Millisecond, times[0], "they are left in their order")
	require.Equal(t, spread{}, spreadOf(nil))
}

func TestAxisTicks(t *testing.T) {
	t.Parallel()
	a := around([]float64{3, 0, 420}, 100, 500)
	require.Equal(t, axis{low: 2, high: 500, from: 100, to: 500, logarithmic: true}, a)
	require.Equal(t, []float64{2, 5, 10, 20, 50, 100, 200, 500}, a.ticks())
	require.InDelta(t, 100, a.place(2), 1e-9)
	require.InDelta(t, 500, a.place(500), 1e-9)
	require.Equal(t, []float64{0, 50, 100, 150, 200, 250, 300}, axis{high: 300}.ticks())
	require.Equal(t, []float64{0.01, 0.02, 0.05, 1, 2, 5}, []float64{roundUp(0.01), roundUp(0.011), roundUp(0.05), roundUp(1), roundUp(1.1), roundUp(3)})
}

// The drawing must be valid XML with everything inside the sheet.
func TestDrawing(t *testing.T) {
	t.Parallel()
	r := &result{
		Commit: "<abc>", At: anyTime, Parameters: &options{Protocol: "delta"},
		Changes: []changes{{Scenario: "route", Last: spread{P50: 20, P95: 30, Max: 90}, Median: spread{P50: 10, P95: 11, Max: 12}, Floor: spread{P50: 4, P95: 5, Max: 6}}},
		Bulk:    []bulk{{Rows: 77, Last: 900}},
		Envoy:   &envoyRun{Role: "gateway", Times: slices.Repeat([]float64{10, 30}, 75)},
	}
	drawn := r.draw()
	decoder := xml.NewDecoder(strings.NewReader(drawn))
	for {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	for _, said := range []string{"route", "last proxy", "bare server, last stream", "77 rows", "20.0 · 30.0 · 90.0", "&lt;abc&gt;", "mean of 100", "logarithmic"} {
		require.Contains(t, drawn, said)
	}
	require.NotContains(t, drawn, "NaN")
	require.NotContains(t, drawn, "Inf")
}

func TestServiceToRoute(t *testing.T) {
	t.Parallel()
	for service, said := range map[float64]string{40: "2.0 times as long as a route at the last proxy, half of the times; the aim, 2.5 times at most, is met", 98: "is missed"} {
		r := &result{Parameters: &options{}, Changes: []changes{{Scenario: "route", Last: spread{P50: 20}}, {Scenario: "service", Last: spread{P50: service}}}}
		var out strings.Builder
		r.reportChanges(&out)
		require.Contains(t, out.String(), said)
	}
	var out strings.Builder
	(&result{Parameters: &options{}, Changes: []changes{{Scenario: "route", Last: spread{P50: 20}}}}).reportChanges(&out)
	require.NotContains(t, out.String(), "the aim")
}
