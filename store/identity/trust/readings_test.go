package trust_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTrustReadingsOfServers(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	early, err := s.Trust(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.NoteTrust(t.Context(), "one", "first", early.ReadAt))
	_, err = s.RevokeIdentity(t.Context(), "b", "thief", "", "")
	require.NoError(t, err)
	at, err := s.Now(t.Context())
	require.NoError(t, err)
	lagging, err := s.TrustLags(t.Context(), at, "")
	require.NoError(t, err)
	require.Equal(t, []string{"first"}, lagging)
	late, err := s.Trust(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.NoteTrust(t.Context(), "one", "first", late.ReadAt))
	require.NoError(t, s.NoteTrust(t.Context(), "two", "second", early.ReadAt))
	lagging, err = s.TrustLags(t.Context(), at, "")
	require.NoError(t, err)
	require.Equal(t, []string{"second"}, lagging)
	require.NoError(t, s.NoteTrust(t.Context(), "two", "second", time.Time{}))
	lagging, err = s.TrustLags(t.Context(), at, "")
	require.NoError(t, err)
	require.Empty(t, lagging, "one that goes says so")
}
