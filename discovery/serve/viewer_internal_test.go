package serve

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

func TestWithoutCertificatesTheMachinesOwnPeopleSeeProxies(t *testing.T) {
	t.Parallel()
	for address, code := range map[string]codes.Code{"127.0.0.1": codes.OK, "::1": codes.OK, "10.0.0.1": codes.PermissionDenied} {
		at := &net.TCPAddr{IP: net.ParseIP(address), Port: 15010}
		namespace, err := anybody{}.viewer(peer.NewContext(t.Context(), &peer.Peer{Addr: at, LocalAddr: at}))
		require.Equal(t, code, status.Code(err), address)
		require.Empty(t, namespace, "which means all")
	}
	_, err := anybody{}.viewer(t.Context())
	require.Equal(t, codes.PermissionDenied, status.Code(err), "nobody knows where it comes from")
}
