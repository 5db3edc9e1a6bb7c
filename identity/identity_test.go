package identity_test

import (
	"testing"

	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity"
)

func TestIDsRoundTrip(t *testing.T) {
	t.Parallel()
	w := identity.Workload{TrustDomain: "mesh.example", Namespace: "shop", ServiceAccount: "cart"}
	id, err := w.ID()
	require.NoError(t, err)
	require.Equal(t, "spiffe://mesh.example/ns/shop/sa/cart", id.String())
	require.Equal(t, id.String(), w.String())
	read, ok := identity.WorkloadOf(id)
	require.True(t, ok)
	require.Equal(t, w, read)

	s := identity.Server{TrustDomain: "mesh.example", Program: identity.Discovery, Name: "eu-1"}
	id, err = s.ID()
	require.NoError(t, err)
	require.Equal(t, "spiffe://mesh.example/pgmesh/discovery/eu-1", id.String())
	require.Equal(t, id.String(), s.String())
	server, ok := identity.ServerOf(id)
	require.True(t, ok)
	require.Equal(t, s, server)
	_, ok = identity.WorkloadOf(id)
	require.False(t, ok)
}

func TestInvalidIDsAreRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"spiffe://a", "spiffe://a/ns/x", "spiffe://a/ns/x/sa/y/z", "spiffe://a/x/ns/y/sa", "spiffe://a/pgmesh/mesh-agent/x", "spiffe://a/pgmesh/discovery",
	} {
		id := spiffeid.RequireFromString(text)
		_, machine := identity.WorkloadOf(id)
		_, server := identity.ServerOf(id)
		require.False(t, machine || server, text)
	}
	for _, w := range []identity.Workload{
		{TrustDomain: "", Namespace: "a", ServiceAccount: "b"},
		{TrustDomain: "t", Namespace: "", ServiceAccount: "b"},
		{TrustDomain: "t", Namespace: "a/sa/x", ServiceAccount: "b"},
		{TrustDomain: "t", Namespace: "..", ServiceAccount: "b"},
	} {
		_, err := w.ID()
		require.Error(t, err, "%+v", w)
	}
	_, err := identity.Server{TrustDomain: "t", Program: "cook", Name: "x"}.ID()
	require.ErrorContains(t, err, "is no program")
}
