package clitest

import (
	"crypto/rand"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
	"github.com/pgmesh/pgmesh/store/machines"
)

// Register registers two machines of the group shop/cart: cart-1, which is gone, and cart-2, which
// is connected, and refused for another group.
func (m *Mesh) Register(s *store.Store) {
	m.t.Helper()
	registered := machines.New(s)
	keeper := machines.Keeper{1}
	first := machines.Change{
		Namespace: "shop", Group: "cart", Machine: "cart-1", ServiceAccount: "default", Since: 1, Address: "10.0.0.1", Health: "healthy", State: machines.Here,
		Labels: map[string]string{"version": "v1"}, Ports: map[string]uint32{"http": 8080, "admin": 9000}, Locality: "eu/a",
	}
	second, refused := first, first
	second.Machine, second.Address, second.Health, second.Detail = "cart-2", "10.0.0.2", "unhealthy", "GET /: 503"
	refused.Machine, refused.Group, refused.Address = "cart-2", "carts", "10.0.0.2"
	for _, of := range [][]machines.Change{{first}, {second, refused}} {
		id, err := registered.OpenSession(m.t.Context(), keeper, "eu-mcp", "eu-1")
		require.NoError(m.t, err)
		_, _, err = registered.Register(m.t.Context(), keeper, id, 1, of, "eu-1")
		require.NoError(m.t, err)
		if of[0].Machine == "cart-1" {
			require.NoError(m.t, registered.EndSessions(m.t.Context(), keeper, []int64{id}))
		}
	}
}

// GiveMembers gives a mesh an authority, a second one that may sign by now, and a machine with the
// enrolment of the examples.
func (m *Mesh) GiveMembers() *store.Store {
	m.t.Helper()
	s := m.Store()
	_, err := trust.New(s).FirstAuthority(m.t.Context(), certtest.NewAuthority(m.t).PEM, "sealed", "mcp-server")
	require.NoError(m.t, err)
	_, err = trust.New(s).AddAuthority(m.t.Context(), certtest.NewAuthority(m.t).PEM, "sealed", "ada")
	require.NoError(m.t, err)
	m.Execute("UPDATE mesh_internal.authority_keys SET created_at = now() - interval '1 hour'")
	m.Issue(s, members.Issue{Identity: "spiffe://cluster.local/ns/default/sa/reviews", Enrolment: "m-abcdefgh234567ab", Serial: "0a1b", Credential: "token", Peer: "10.0.0.1:4711"})
	return s
}

// Issue records a certificate like discovery does.
func (m *Mesh) Issue(s *store.Store, i members.Issue) {
	m.t.Helper()
	_, _ = rand.Read(i.ID[:])
	if i.At = time.Now(); i.Refusal == "" {
		i.NotAfter = time.Now().Add(time.Hour)
	}
	require.NoError(m.t, members.New(s).RecordIssues(m.t.Context(), "spiffe://cluster.local/pgmesh/discovery/eu-1", []members.Issue{i}))
}
