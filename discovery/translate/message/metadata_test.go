package message

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
)

func TestKindsArePathsAsIstioWritesThem(t *testing.T) {
	t.Parallel()
	require.Equal(t, "destination-rule", kebab("DestinationRule"))
}

func TestThePathOfAResourceNamesIt(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds.All() {
		r := &kinds.Resource{Kind: kind, Namespace: "shop", Name: "web.v1"}
		key, ok := ResourceAt(PathOf(r))
		require.True(t, ok)
		require.Equal(t, r.Key(), key)
	}
	for _, path := range []string{"", "/", "/apis/networking.istio.io/v1/namespaces/shop/gateway/a/b", "/apis/x/v1/namespaces/shop/gateway/web"} {
		_, ok := ResourceAt(path)
		require.False(t, ok, path)
	}
}
