package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	_ "github.com/pgmesh/pgmesh/kinds/envoy" // the types of what is in a dump
)

// dumped is what a dump has of what discovery sends, by type and name.
func dumped(t *testing.T, text string) map[string]proto.Message {
	t.Helper()
	dump := &adminv3.ConfigDump{}
	require.NoError(t, protojson.Unmarshal([]byte(text), dump), text)
	all := map[string]proto.Message{}
	add := func(packed *anypb.Any) {
		m, err := packed.UnmarshalNew()
		require.NoError(t, err)
		switch m := m.(type) {
		case *clusterv3.Cluster:
			all["cluster "+m.GetName()] = m
		case *listenerv3.Listener:
			all["listener "+m.GetName()] = m
		case *routev3.RouteConfiguration:
			all["routes "+m.GetName()] = m
			for _, h := range m.GetVirtualHosts() {
				all["host "+m.GetName()+" "+h.GetName()] = h
			}
			m.VirtualHosts = nil // they come in any order
		case *routev3.ScopedRouteConfiguration:
			all["scope "+m.GetName()] = m
		}
	}
	for _, c := range dump.GetConfigs() {
		section, err := c.UnmarshalNew()
		require.NoError(t, err)
		switch section := section.(type) {
		case *adminv3.ClustersConfigDump:
			for _, d := range section.GetDynamicActiveClusters() {
				add(d.GetCluster())
			}
		case *adminv3.ListenersConfigDump:
			for _, d := range section.GetDynamicListeners() {
				add(d.GetActiveState().GetListener())
			}
		case *adminv3.RoutesConfigDump:
			for _, d := range section.GetDynamicRouteConfigs() {
				add(d.GetRouteConfig())
			}
		case *adminv3.ScopedRoutesConfigDump:
			for _, d := range section.GetDynamicScopedRouteConfigs() {
				for _, packed := range d.GetScopedRouteConfigs() {
					add(packed)
				}
			}
		}
	}
	return all
}

// Discovery's dump of a proxy equals its Envoy's, message by message.
func TestDiscoverysDumpIsEnvoysOwn(t *testing.T) {
	t.Parallel()
	for _, xds := range []string{"delta", "sotw"} {
		t.Run(xds, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, "--xds", xds)
			m.commit(m.service(reviews, backends(t, "v1", "v2")...), subsets(reviews, "v1", "v2"),
				virtualService(reviews, split(reviews, weight{"v1", 100}, weight{"v2", 0})))
			m.answers(reviews, "v1")
			before := m.measured(xds)
			m.commit(virtualService(reviews, split(reviews, weight{"v1", 0}, weight{"v2", 100})))
			m.answers(reviews, "v2")
			m.accepted()

			_, own, err := fetch(t.Context(), "http://"+m.agent.Admin+"/config_dump")
			require.NoError(t, err)
			status, told, err := fetch(t.Context(), "http://"+m.Discovery.HTTP()+"/debug/config_dump?proxy=client."+m.namespace)
			require.NoError(t, err)
			require.Equal(t, http.StatusOK, status, told)
			want, got := dumped(t, own), dumped(t, told)
			require.NotEmpty(t, want)
			for name, message := range want {
				require.Contains(t, got, name)
				require.Empty(t, differences(message, got[name]), name)
			}
			require.Contains(t, want, "cluster outbound|"+m.port+"|v2|"+reviews)
			require.Greater(t, m.measured(xds), before, "the time from the commit to the acceptance")
		})
	}
}

func TestDiscoverysDumpOfAGatewayWithManyHostsIsEnvoysOwn(t *testing.T) {
	t.Parallel()
	m := newGateway(t)
	m.port = newPort(t)
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)), m.exposing(plain(m.port)), manyHosts("shop.mesh"))
	m.answers("many-7.example.com", "shop")
	m.accepted()
	_, own, err := fetch(t.Context(), "http://"+m.agent.Admin+"/config_dump")
	require.NoError(t, err)
	_, told, err := fetch(t.Context(), "http://"+m.Discovery.HTTP()+"/debug/config_dump?proxy=client."+m.namespace)
	require.NoError(t, err)
	want, got := dumped(t, own), dumped(t, told)
	require.Contains(t, want, "scope http."+m.port+"/many-7.example.com")
	for name, message := range want {
		require.Contains(t, got, name)
		require.Empty(t, differences(message, got[name]), name)
	}
}

// differences tells how two messages differ, "" if they are equal.
func differences(want, got proto.Message) string {
	if proto.Equal(want, got) {
		return ""
	}
	return fmt.Sprintf("Envoy has\n%s\nand discovery shows\n%s", protojson.Format(want), protojson.Format(got))
}

// accepted waits until the proxy has accepted everything that discovery has for it.
func (m *mesh) accepted() {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		_, text, err := fetch(ctx, "http://"+m.Discovery.HTTP()+"/debug/proxies?proxy=client."+m.namespace)
		if err != nil {
			return err
		}
		var all []struct{ Current bool }
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		if len(all) != 1 || !all[0].Current {
			return fmt.Errorf("it is behind: %s", text)
		}
		return nil
	})
}

// measured is how often the time from a commit to the acceptance of routes was measured.
func (m *mesh) measured(xds string) (n float64) {
	m.t.Helper()
	metrics, err := scrape(m.t.Context(), m.Discovery)
	require.NoError(m.t, err)
	message := map[string]string{"delta": "VirtualHost", "sotw": "RouteConfiguration"}[xds]
	for series := range metrics {
		if strings.HasPrefix(series, "pgmesh_discovery_commit_to_ack_seconds_count{") && strings.Contains(series, message) {
			n += metrics[series]
		}
	}
	return n
}
