package version_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/pgmesh/pgmesh/internal/kit/version"
)

func TestAPeerSaysItsVersion(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{
		version.UserAgent("mesh-agent") + " grpc-go/1.80.0": version.Program(),
		"mesh-agent/1.4.0":                       "1.4.0",
		"mesh-agent/1\xff.\x1b4":                 "1.4",
		"envoy/1.40.0":                           "",
		"mesh-agent":                             "",
		"mesh-agent-probe/1 grpc-go/1.80.0":      "",
		"mesh-agent/" + strings.Repeat("1", 100): strings.Repeat("1", 64),
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("user-agent", said))
		require.Equal(t, want, version.OfPeer(ctx, "mesh-agent"), said)
	}
	require.Empty(t, version.OfPeer(t.Context(), "mesh-agent"))
}
