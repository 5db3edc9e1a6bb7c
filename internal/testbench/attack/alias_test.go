package attack

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A certificate says something of its bearer that would break a line of metrics, or a tag of
// Envoy's, or take a lot of memory. No authority of ours signs such a one. Its requests are counted
// as those of its account, and those of others as ever.
func TestWhatCertificatesSayOfTheirBearersBreaksNoMetrics(t *testing.T) {
	t.Parallel()
	c := newCounted(t)
	check := keepsBelow(t, memory{c.server, 200})
	web := c.caller("web", "bank;web;v1;web;v1;")
	strange := []string{
		"a\nb", `a"b`, `a\b`, "}", "=", "^", "^^^^^^^^^^", ",le=", "a,le=\"1\"} 5\nistio_requests_total{", "%RESPONSE_CODE%", "\x00", "\u00e9\u2028",
		`[{"host":"h","name":"n","namespace":"shop"}]`, strings.Repeat("x", 64<<10), strings.Repeat("\"\\\n", 64<<10/3), strings.Repeat(";", 64<<10),
	}
	for i, alias := range strange {
		require.NoError(t, c.asks(web, http.StatusOK))
		require.NoError(t, c.asks(c.caller(fmt.Sprint("strange-", i), alias), http.StatusOK), "%.99q", alias)
	}
	require.Error(t, c.asks(c.caller("strange", "\xff\xfe"), http.StatusOK), "Envoy reads no alias that is not UTF-8") // some see why, some a connection that is closed
	c.counts("istio_request_bytes", "web", len(strange))
	page, err := c.metrics(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, len(strange), page.of["istio_requests_total"]["web"])
	named := 1
	for i, alias := range strange {
		if strings.Contains(alias, "\n") {
			continue // Envoy counts nothing with a line's end in a tag
		}
		named++
		require.Equal(t, 1, page.of["istio_requests_total"][fmt.Sprint("strange-", i)], "%.99q", alias)
	}
	require.Len(t, page.of["istio_requests_total"], named, "and nobody is called otherwise")
	check()
}
