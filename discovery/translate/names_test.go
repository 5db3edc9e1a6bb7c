package translate

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesAreIstios(t *testing.T) {
	t.Parallel()
	require.Equal(t, "outbound|9080|v1|reviews.default.svc.cluster.local", ClusterName(9080, "v1", "reviews.default.svc.cluster.local"))
	require.Equal(t, "inbound|8080||", InboundClusterName(8080))
	require.Equal(t, "0.0.0.0_9080", listenerName("0.0.0.0", 9080))
	require.Equal(t, "[fd00::1]:80", hostPort("fd00::1", 80))
	require.Equal(t, "destination-rule", kebab("DestinationRule"))
}
