package route

import (
	"testing"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"
)

func TestStatusCodesAreTakenOutOfRetryConditions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		list, conditions string
		codes            []uint32
	}{
		{"5xx,reset", "5xx,reset", nil},
		{"5xx, 503 ,, 429", "5xx,retriable-status-codes", []uint32{503, 429}},
		{"503", "retriable-status-codes", []uint32{503}},
		{"retriable-status-codes,409", "retriable-status-codes", []uint32{409}},
		{"999", "999", nil},
	} {
		conditions, codes := retryConditions(c.list)
		require.Equal(t, c.conditions, conditions, c.list)
		require.Equal(t, c.codes, codes, c.list)
	}
}

func TestHashedRequestsStayWithTheirEndpoint(t *testing.T) {
	t.Parallel()
	require.Empty(t, retries(nil, true).GetRetryHostPredicate())
	require.NotEmpty(t, retries(nil, false).GetRetryHostPredicate())
	require.Nil(t, retries(&networking.HTTPRetry{Attempts: 0}, false))
}
