package translate_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/envoyfilter"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate"
	"github.com/pgmesh/pgmesh/discovery/translate/division"
	"github.com/pgmesh/pgmesh/discovery/translate/memory"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/kinds"
)

// TestRoutesByHostSayWhatWholeOnesSay compares, for each input of a router, what each domain gets
// by hosts with the whole route configuration.
func TestRoutesByHostSayWhatWholeOnesSay(t *testing.T) {
	t.Parallel()
	divided := 0
	for _, file := range inputs(t) {
		in := readInput(t, file)
		batch := kinds.Batch{Revision: 1}
		for _, r := range in.resources {
			batch.Changes = append(batch.Changes, kinds.Change{Key: r.Key(), Resource: r})
		}
		m := mesh.Build(configstore.New().Apply(batch), nil)
		p := *m.Configured(in.proxy(t))
		p.ScopedFrom = 1
		v := view.Of(m, &p)
		whole := translate.Routes(v)
		for i, one := range division.Of(v, memory.ForOnce(v)) {
			d := one.Make()
			if len(d.Scopes) > 0 {
				divided++
				requireSameDomains(t, whole[i], d)
				requireSameDomains(t, whole[i], division.Patched(v, whole[i]))
			}
		}
		for _, patched := range envoyfilter.For(m, &p).Routes(whole) {
			if d := division.Patched(v, patched); len(d.Scopes) > 0 {
				requireSameDomains(t, patched, d)
			}
		}
	}
	require.Greater(t, divided, 5)
}

func requireSameDomains(t *testing.T, whole *routev3.RouteConfiguration, d division.Divided) {
	t.Helper()
	before, keys := proto.CloneOf(whole), map[string]bool{}
	wanted, got, hosts := map[string]*routev3.VirtualHost{}, map[string]*routev3.VirtualHost{}, map[string]*routev3.VirtualHost{}
	require.NotNil(t, d.Configuration.GetVhds(), "connections to a listener of the other form may last")
	byDomain := func(into map[string]*routev3.VirtualHost, h *routev3.VirtualHost) {
		for _, domain := range h.GetDomains() {
			one := proto.CloneOf(h)
			one.Domains, one.Name = nil, "" // those that are together bear the name of one
			delete(one.GetMetadata().GetFilterMetadata(), "pgmesh.scope")
			if len(one.GetMetadata().GetFilterMetadata()) == 0 {
				one.Metadata = nil
			}
			into[domain] = one
		}
	}
	for _, h := range whole.GetVirtualHosts() {
		if !strings.HasPrefix(h.GetName(), "blackhole:") { // which has no routes
			byDomain(wanted, h)
		}
	}
	for _, s := range d.Scopes {
		require.NoError(t, s.ValidateAll())
		key := s.GetKey().GetFragments()[0].GetStringKey()
		require.False(t, keys[key], "Envoy refuses a second one for %s", key)
		keys[key] = true
		for _, h := range s.GetRouteConfiguration().GetVirtualHosts() {
			if strings.HasPrefix(h.GetName(), "blackhole:") {
				continue
			}
			_, host, _ := strings.Cut(key, "/")
			if host != "*" {
				require.Equal(t, host, strings.ToLower(h.GetDomains()[0]))
				require.Len(t, h.GetDomains(), 1)
				require.NotNil(t, h.GetMetadata().GetFilterMetadata()["pgmesh.scope"])
			}
			byDomain(got, h)
		}
	}
	names := map[string]bool{}
	for _, h := range d.Hosts {
		require.False(t, names[h.GetName()], h.GetName())
		names[h.GetName()] = true
		if len(h.GetRoutes()) > 0 || h.GetRequireTls() != 0 {
			byDomain(hosts, h)
		}
	}
	require.Empty(t, cmp.Diff(wanted, hosts, protocmp.Transform()))
	require.Contains(t, keys, whole.GetName()+"/*")
	require.Equal(t, slices.Sorted(maps.Keys(wanted)), slices.Sorted(maps.Keys(got)))
	require.Empty(t, cmp.Diff(wanted, got, protocmp.Transform()))
	require.Empty(t, cmp.Diff(before, whole, protocmp.Transform()), "messages are shared: nobody may write to them")
}
