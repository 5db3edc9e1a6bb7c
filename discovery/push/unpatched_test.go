package push_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// patched is an EnvoyFilter with one patch.
func patched(name, applyTo, value string) string {
	return fmt.Sprintf(`
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: %s, namespace: shop}
spec: {configPatches: [{applyTo: %s, patch: {operation: MERGE, value: %s}}]}
`, name, applyTo, value)
}

func TestAPatchIsForThoseItSelectsAndWhatItPatches(t *testing.T) {
	t.Parallel()
	b := newBench()
	b.apply(t, service+"---"+route("web", "1")+"---"+patched("slow", "CLUSTER", "{connect_timeout: 1s}"))
	mine, other := b.proxy(t, "10.0.0.1", "shop"), b.proxy(t, "10.0.0.2", "elsewhere")
	cluster := func(s *served.Subscriber) *served.Resource {
		return s.Snapshot().Sets[push.ClusterType].Get("outbound|80||web.shop")
	}
	before, mineBefore, otherBefore := cluster(mine), mine.Snapshot().Sets, other.Snapshot().Sets
	require.NotEqual(t, before.Version, cluster(other).Version)

	b.apply(t, patched("slow", "CLUSTER", "{connect_timeout: 2s}"))
	require.NotEqual(t, before.Version, cluster(mine).Version)
	for _, typeURL := range []string{push.EndpointType, push.ListenerType, push.RouteType} {
		require.Same(t, mineBefore[typeURL], mine.Snapshot().Sets[typeURL], typeURL)
	}
	for typeURL, set := range otherBefore {
		require.Same(t, set, other.Snapshot().Sets[typeURL], typeURL)
	}
}

func TestAPatchThatIsNotAppliedIsToldOfOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	metrics := prometheus.NewRegistry()
	b := &bench{Engine: push.New(slog.New(slog.NewTextHandler(&log, nil)), metrics), config: configstore.New()}
	b.proxy(t, "10.0.0.1", "shop")
	b.proxy(t, "10.0.0.2", "shop")
	b.apply(t, service+"---"+route("web", "1")+"---"+patched("broken", "CLUSTER", "{name: BlackHoleCluster}")+"---"+patched("unread", "CLUSTER", "{connect_timeout: soon}"))
	b.apply(t, route("web", "2"))

	require.Equal(t, 2, strings.Count(log.String(), "a patch of an EnvoyFilter is not applied"), log.String())
	require.Contains(t, log.String(), `resource="EnvoyFilter shop/broken" path=spec.configPatches[0] at=InboundPassthroughCluster`)
	require.NoError(t, testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP pgmesh_discovery_patches_not_applied Patches of EnvoyFilters that are not applied as they are written, or not everywhere; the log and /problems have each.
# TYPE pgmesh_discovery_patches_not_applied gauge
pgmesh_discovery_patches_not_applied 2
`), "pgmesh_discovery_patches_not_applied"))
}
