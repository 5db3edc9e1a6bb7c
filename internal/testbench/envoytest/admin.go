package envoytest

import (
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// admin keeps no idle connections, which goleak would report as leaked goroutines.
var admin = &http.Client{Timeout: startLimit, Transport: &http.Transport{DisableKeepAlives: true}}

// Get calls the admin API: Get(t, "/ready").
func (e *Envoy) Get(t testing.TB, path string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.Admin+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := admin.Do(request)
	if err != nil {
		t.Fatalf("ask Envoy's admin API: %v", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("Envoy's admin API answered GET %s with %s: %s (%v)", path, response.Status, body, err)
	}
	return string(body)
}

// ConfigDump returns Envoy's configuration, endpoints included. The Go package of every extension
// in it must be linked into the test.
func (e *Envoy) ConfigDump(t testing.TB) *adminv3.ConfigDump {
	t.Helper()
	return decode(t, e.Get(t, "/config_dump?include_eds"), &adminv3.ConfigDump{})
}

// Clusters returns the state of the clusters and their hosts.
func (e *Envoy) Clusters(t testing.TB) *adminv3.Clusters {
	t.Helper()
	return decode(t, e.Get(t, "/clusters?format=json"), &adminv3.Clusters{})
}

// ListenerAddress returns the address of a listener, with the real port of one configured with port
// 0.
func (e *Envoy) ListenerAddress(t testing.TB, name string) netip.AddrPort {
	t.Helper()
	for _, l := range decode(t, e.Get(t, "/listeners?format=json"), &adminv3.Listeners{}).GetListenerStatuses() {
		if l.GetName() != name {
			continue
		}
		s := l.GetLocalAddress().GetSocketAddress()
		return netip.AddrPortFrom(netip.MustParseAddr(s.GetAddress()), uint16(s.GetPortValue()))
	}
	t.Fatalf("Envoy has no listener %q", name)
	return netip.AddrPort{}
}

// Stats returns the counters and gauges whose whole name matches the regular expression.
func (e *Envoy) Stats(t testing.TB, expression string) map[string]uint64 {
	t.Helper()
	stats := map[string]uint64{}
	text := e.Get(t, "/stats?filter="+url.QueryEscape("^(?:"+expression+")$"))
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			stats[name] = n
		}
	}
	return stats
}

// Stat returns one counter or gauge, or 0 if Envoy does not have it (yet).
func (e *Envoy) Stat(t testing.TB, name string) uint64 {
	t.Helper()
	return e.Stats(t, regexp.QuoteMeta(name))[name]
}

func decode[M proto.Message](t testing.TB, text string, into M) M {
	t.Helper()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("decode what Envoy's admin API answered: %v", err)
	}
	return into
}
