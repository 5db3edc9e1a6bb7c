package legacy

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestTheCollectionsOfAStreamAreLimited(t *testing.T) {
	t.Parallel()
	s := newStream(source, nil, nil, slog.New(slog.DiscardHandler), &streamReport{}, "somebody")
	for i := range maxWatches {
		_, err := s.watch(fmt.Sprint("k8s/made/up", i))
		require.NoError(t, err)
	}
	_, err := s.watch("istio/networking/v1alpha3/gateways")
	require.Equal(t, codes.ResourceExhausted, status.Code(err))
}
