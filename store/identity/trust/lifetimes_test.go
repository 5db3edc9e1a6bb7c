package trust_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
)

func TestServersReadHowLongCertificatesLiveWhereNobodyCanHoldThemUp(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	s := openURL(t, y.URL)
	lifetimes := func() map[string]int64 {
		trust, err := s.Trust(t.Context())
		require.NoError(t, err)
		return trust.Lifetimes
	}
	require.Empty(t, lifetimes())
	y.Owner.Exec("INSERT INTO mesh.settings (namespace, name, value) VALUES ('', 'certificate_lifetime', '1 hour'), ('a', 'certificate_lifetime', '15 minutes'), ('', 'strict_references', 'on')")
	require.Equal(t, map[string]int64{"": 3600, "a": 900}, lifetimes())
	tenant := y.Tenant("tenant", [2]string{"a", "write"})
	tenant.Refused("UPDATE mesh.settings SET value = '30 days' WHERE namespace = 'a'")
	tenant.Refused("SELECT mesh.reset_setting('certificate_lifetime', 'a')")
	require.Contains(t, y.Owner.Refused("UPDATE mesh.settings SET value = '5 seconds' WHERE namespace = 'a'").Message, "is too short")
	require.Equal(t, map[string]int64{"": 3600, "a": 900}, lifetimes())
	y.Owner.Exec("DELETE FROM mesh.settings WHERE name = 'certificate_lifetime'")
	require.Empty(t, lifetimes())
}
