package translate_test

import (
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

// TestDividedRoutesSayWhatWholeOnesSay compares, for each input, the parts that an Envoy puts
// together with the whole route configuration.
func TestDividedRoutesSayWhatWholeOnesSay(t *testing.T) {
	t.Parallel()
	for _, file := range inputs(t) {
		t.Run(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/"), ".in.yaml"), func(t *testing.T) {
			t.Parallel()
			in := readInput(t, file)
			batch := kinds.Batch{Revision: 1}
			for _, r := range in.resources {
				batch.Changes = append(batch.Changes, kinds.Change{Key: r.Key(), Resource: r})
			}
			m := mesh.Build(configstore.New().Apply(batch), nil)
			taken := *m.Configured(in.proxy(t))
			taken.ScopedFrom = 0
			p := &taken
			v := view.Of(m, p)
			whole := translate.Routes(v)
			for i, one := range division.Of(v, memory.ForOnce(v)) {
				d := one.Make()
				requireSame(t, whole[i], d)
				require.Empty(t, cmp.Diff(d, division.ByHost(whole[i]), protocmp.Transform()))
			}
			for _, patched := range envoyfilter.For(m, p).Routes(whole) {
				requireSame(t, patched, division.ByHost(patched))
			}
		})
	}
}

func requireSame(t *testing.T, whole *routev3.RouteConfiguration, d division.Divided) {
	t.Helper()
	before := proto.CloneOf(whole)
	together := proto.CloneOf(d.Configuration)
	require.NoError(t, d.Configuration.ValidateAll())
	if len(d.Hosts) > 0 {
		require.NotNil(t, d.Configuration.GetVhds())
		require.Empty(t, d.Configuration.GetVirtualHosts())
	}
	together.Vhds = nil
	for _, host := range d.Hosts {
		require.NoError(t, host.ValidateAll())
		host = proto.CloneOf(host)
		rest, in := strings.CutPrefix(host.GetName(), together.GetName()+"/")
		require.True(t, in, host.GetName())
		host.Name = rest
		together.VirtualHosts = append(together.VirtualHosts, host)
	}
	require.Empty(t, cmp.Diff(whole, together, protocmp.Transform()))
	require.Empty(t, cmp.Diff(before, whole, protocmp.Transform()), "messages are shared: nobody may write to them")
}
