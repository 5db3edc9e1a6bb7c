package inspect_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/discovery/push"
)

// proxies is /debug/proxies, with its documented names.
type proxies []struct {
	Proxy, Node, Role, Namespace, Address, Form, Envoy, Class string

	Connected        time.Time
	Warnings         []string
	Current          bool
	OnDemand         bool `json:"on_demand"`
	Revision, Newest string
	Types            []typeOfProxy
}

type typeOfProxy struct {
	Type, Status string
	Resources    int
	Pending      bool
	Sent         struct {
		Revision                  string
		At                        time.Time
		Resources, Removed, Bytes int
	}
	Acked, Nacked struct {
		Revision, Reason string
		At               time.Time
	}
	Refused []struct {
		Name, Version, Reason string
		Since                 time.Time
	}
}

func TestProxiesAreListedWithWhatTheyAnswered(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web)
	begun := time.Now()
	p := b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType)
	first := p.receive()
	page := eventually(b, "/debug/proxies", func(all proxies) bool { return len(all) == 1 && len(all[0].Types) == 1 && all[0].Types[0].Pending })
	one := page[0]
	require.Equal(t, "vm-1.shop", one.Proxy)
	require.Equal(t, "sidecar~10.0.0.1~vm-1.shop~shop.svc.cluster.local", one.Node)
	require.Equal(t, []string{"sidecar", "shop", "delta", "1.40.0", "1"}, []string{one.Role, one.Namespace, one.Form, one.Envoy, one.Revision})
	require.Contains(t, one.Address, "127.0.0.1:")
	require.Len(t, one.Class, 8)
	require.WithinRange(t, one.Connected, begun, time.Now())
	require.False(t, one.Current, "it has not answered")
	require.Equal(t, "stale", one.Types[0].Status)
	require.Equal(t, len(first.GetResources()), one.Types[0].Sent.Resources)
	require.Positive(t, one.Types[0].Sent.Bytes)

	p.ack(first)
	page = eventually(b, "/debug/proxies", func(all proxies) bool { return all[0].Current })
	require.Equal(t, "clusters", page[0].Types[0].Type)
	require.Equal(t, "synced", page[0].Types[0].Status)
	require.Equal(t, "1", page[0].Types[0].Acked.Revision)
	require.Equal(t, len(first.GetResources()), page[0].Types[0].Resources)

	b.apply(`{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: web}, spec: {host: web.shop, trafficPolicy: {connectionPool: {tcp: {connectTimeout: 1s}}}}}`)
	second := p.receive()
	p.nack(second, "the timeout is too short for me")
	page = eventually(b, "/debug/proxies", func(all proxies) bool { return len(all[0].Types[0].Refused) == 1 })
	require.Equal(t, "nacked", page[0].Types[0].Status)
	require.Equal(t, "outbound|80||web.shop", page[0].Types[0].Refused[0].Name)
	require.Equal(t, second.GetResources()[0].GetVersion(), page[0].Types[0].Refused[0].Version)
	require.Equal(t, "the timeout is too short for me", page[0].Types[0].Refused[0].Reason)
	require.Equal(t, "2", page[0].Types[0].Nacked.Revision)
	require.Equal(t, "the timeout is too short for me", page[0].Types[0].Nacked.Reason)
	require.Equal(t, "1", page[0].Types[0].Acked.Revision)
	require.False(t, page[0].Current)

	refusal := page[0].Types[0].Nacked
	b.remove("DestinationRule", "web")
	page = eventually(b, "/debug/proxies", func(all proxies) bool { return all[0].Current })
	require.Equal(t, "synced", page[0].Types[0].Status, "it is again to have what it has")
	require.Equal(t, refusal, page[0].Types[0].Nacked, "that it refused something is remembered")
}

func TestAChangeThatDoesNotConcernAProxyLeavesItCurrent(t *testing.T) {
	t.Parallel()
	b, _ := startWithProxy(t)
	b.apply(`{apiVersion: networking.istio.io/v1, kind: DestinationRule, metadata: {name: other}, spec: {host: other.shop}}`)
	eventually(b, "/debug/push", func(q queue) bool { return q.Pushed == "2" })
	page := shown[proxies](b, "/debug/proxies")
	require.True(t, page[0].Current)
	require.Equal(t, "1", page[0].Types[0].Acked.Revision)
}

func TestAProxyIsServedWithoutMetadataThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web)
	n := node("sidecar", "10.0.0.1", "vm-1")
	n.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{"IDLE_TIMEOUT": structpb.NewStringValue("soon")}}
	b.connect(n, push.ClusterType).accept(1)
	page := eventually(b, "/debug/proxies", func(all proxies) bool { return len(all) == 1 && all[0].Current })
	require.Equal(t, []string{`IDLE_TIMEOUT: "soon" is not a duration, and is left out: write it as 5s or 1h`}, page[0].Warnings)
}

func TestProxiesThatAreAlikeAreOneClass(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web)
	b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType)
	b.connect(node("sidecar", "10.0.0.2", "vm-2"), push.ClusterType)
	b.connect(node("router", "10.0.0.3", "gate"), push.ClusterType)
	page := eventually(b, "/debug/proxies", func(all proxies) bool { return len(all) == 3 })
	require.Equal(t, "gate.shop", page[0].Proxy)
	require.Equal(t, page[1].Class, page[2].Class)
	require.NotEqual(t, page[0].Class, page[1].Class)
}

func TestOneProxyIsFoundByItsNames(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.apply(web)
	for _, name := range []string{"vm-1", "vm-2"} {
		b.connect(node("sidecar", "10.0.0.1", name), push.ClusterType).accept(1)
	}
	for _, name := range []string{"vm-1.shop", "vm-1", "sidecar~10.0.0.1~vm-1.shop~shop.svc.cluster.local"} {
		require.Equal(t, "vm-1.shop", shown[proxies](b, "/debug/proxies?proxy="+name)[0].Proxy)
	}
	b.refuses(http.StatusNotFound, map[string]string{
		"/debug/proxies?proxy=vm-1.shp":     "no proxy \"vm-1.shp\" is connected to this discovery: did you mean \"vm-1.shop\"?\n",
		"/debug/config_dump?proxy=database": "no proxy \"database\" is connected to this discovery: there are vm-1.shop, vm-2.shop\n",
	})
}

func TestWrongFiltersAreToldOf(t *testing.T) {
	t.Parallel()
	b, _ := startWithProxy(t)
	b.refuses(http.StatusBadRequest, map[string]string{
		"/debug/config_dump":                             "say of which proxy, as in /debug/config_dump?proxy=ID; /debug/proxies lists them\n",
		"/debug/config_dump?proxy=vm-1&type=cluster":     "there is no type \"cluster\": did you mean \"clusters\"?\n",
		"/debug/config_dump?proxy=vm-1&typ=clusters":     "there is no filter \"typ\": did you mean \"type\"?\n",
		"/debug/clusters?proxy=vm-1&name=" + "%28outbou": "name=(outbou is not a regular expression: error parsing regexp: missing closing ): `(outbou`\n",
	})
}

func TestBeforeThereIsAConfigurationProxiesAreListedAlready(t *testing.T) {
	t.Parallel()
	b := start(t)
	b.connect(node("sidecar", "10.0.0.1", "vm-1"), push.ClusterType)
	page := eventually(b, "/debug/proxies", func(all proxies) bool { return len(all) == 1 && len(all[0].Types) == 1 })
	require.False(t, page[0].Current)
	require.Equal(t, "stale", page[0].Types[0].Status)
	require.Empty(t, page[0].Class)
	code, text := b.get("/debug/clusters?proxy=vm-1")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "there is no configuration yet: /readyz says what is missing\n", text)
}
