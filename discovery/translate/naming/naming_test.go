package naming

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesAreIstios(t *testing.T) {
	t.Parallel()
	require.Equal(t, "outbound|9080|v1|reviews.default.svc.cluster.local", Cluster(9080, "v1", "reviews.default.svc.cluster.local"))
	require.Equal(t, "outbound|9080|v1~edge~gate|reviews.default.svc.cluster.local", ClusterShowing(9080, "v1", "edge/gate", "reviews.default.svc.cluster.local"))
	require.Equal(t, "inbound|8080||", InboundCluster(8080))
	require.Equal(t, "0.0.0.0_9080", Listener("0.0.0.0", 9080))
	require.Equal(t, "[fd00::1]:80", HostPort("fd00::1", 80))
}
