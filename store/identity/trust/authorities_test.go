package trust_test

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

const sealed = "pgmesh:v1:0123456789abcdef:c2VhbGVk"

func states(t *testing.T, s *trust.Store) string {
	t.Helper()
	list, err := s.Authorities(t.Context())
	require.NoError(t, err)
	words := make([]string, len(list))
	for i, a := range list {
		words[i] = string(a.State)
		require.Empty(t, a.SealedKey)
	}
	return strings.Join(words, " ")
}

// refusedFor requires that an error is one of what the database does not do, and says why.
func refusedFor(t *testing.T, err error, says string) {
	t.Helper()
	_, refused := errors.AsType[*store.RefusedError](err)
	require.True(t, refused, "%v", err)
	require.ErrorContains(t, err, says)
}

func TestOneOfManyMakesTheFirstAuthority(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	var wins atomic.Int64
	var group errgroup.Group
	for range 6 {
		s, chain := openURL(t, url), certtest.NewAuthority(t).PEM
		group.Go(func() error {
			won, err := s.FirstAuthority(t.Context(), chain, sealed, "mcp-server")
			if won {
				wins.Add(1)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, int64(1), wins.Load())
	require.Equal(t, "active", states(t, openURL(t, url)))
}

func TestAnAuthorityGoesThroughItsStates(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	first, second := certtest.NewAuthority(t), certtest.NewAuthority(t)
	won, err := s.FirstAuthority(t.Context(), first.PEM, sealed, "mcp-server")
	require.NoError(t, err)
	require.True(t, won)
	next, err := s.AddAuthority(t.Context(), second.PEM, sealed+"AAAA", "ada")
	require.NoError(t, err)
	_, err = s.AddAuthority(t.Context(), certtest.NewAuthority(t).PEM, sealed, "ada")
	refusedFor(t, err, "there is an authority already that is to sign next: 2 (activate it, or retire it first)")

	list, err := s.AuthoritiesWithKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{sealed, sealed + "AAAA"}, []string{list[0].SealedKey, list[1].SealedKey})
	require.Equal(t, storetest.Value[string](db, "SELECT encode(sha256(mesh_internal.pem_blocks($1, 'CERTIFICATE')), 'hex')", string(first.PEM)), list[0].Fingerprint)
	require.Equal(t, string(first.PEM), string(list[0].Chain))
	require.Equal(t, []string{"mcp-server", "mcp-server", "ada", ""}, []string{list[0].By, list[0].Activator, list[1].By, list[1].Activator})
	require.True(t, list[0].NotAfter.After(list[0].NotBefore) && !list[0].Activated.IsZero() && list[1].Activated.IsZero())

	refusedFor(t, s.ActivateAuthority(t.Context(), next, false, "ada"), "not every member of the mesh may have heard of authority 2")
	refusedFor(t, s.ActivateAuthority(t.Context(), 1, true, "ada"), "authority 1 cannot be activated: it is active")
	refusedFor(t, s.ActivateAuthority(t.Context(), 9, true, "ada"), "there is no authority 9 (mesh.authorities lists them)")
	refusedFor(t, s.RetireAuthority(t.Context(), 1, true, "ada"), "authority 1 cannot be retired: it is active (activate another before it")
	require.Equal(t, "active next", states(t, s))
	db.Exec("UPDATE mesh_internal.authority_keys SET created_at = now() - interval '5 minutes' WHERE state = 'next'")
	require.NoError(t, s.ActivateAuthority(t.Context(), next, false, "ada"))
	require.Equal(t, "previous active", states(t, s))
	trust, err := s.Trust(t.Context())
	require.NoError(t, err)
	require.Equal(t, []int64{2, 1}, []int64{trust.Roots[0].ID, trust.Roots[1].ID})
	require.Equal(t, [][]byte{second.PEM, first.PEM}, [][]byte{trust.Roots[0].Chain, trust.Roots[1].Chain})

	refusedFor(t, s.RetireAuthority(t.Context(), 1, false, "ada"), "authority 1 was replaced only 00:00:00 ago")
	db.Exec("UPDATE mesh_internal.authority_keys SET replaced_at = now() - interval '10 minutes' WHERE state = 'previous'")
	require.NoError(t, s.RetireAuthority(t.Context(), 1, false, "grace"))
	require.Equal(t, "retired active", states(t, s))
	list, err = s.AuthoritiesWithKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"", "grace"}, []string{list[0].SealedKey, list[0].Retirer}, "its key is forgotten")
	trust, err = s.Trust(t.Context())
	require.NoError(t, err)
	require.Len(t, trust.Roots, 1)
	refusedFor(t, s.ActivateAuthority(t.Context(), 1, true, "ada"), "its key is gone")
}

func TestAnAuthorityStaysTrustedWhileItsCertificatesAreInUse(t *testing.T) {
	t.Parallel()
	database, url := storetest.Open(t)
	s, recorded := trust.New(database), members.New(database)
	db := storetest.Connect(t, url)
	_, err := s.FirstAuthority(t.Context(), certtest.NewAuthority(t).PEM, sealed, "mcp-server")
	require.NoError(t, err)
	old, err := s.Authorities(t.Context())
	require.NoError(t, err)
	named, unnamed := storetest.Issued("spiffe://mesh/ns/shop/sa/cart", "m-1"), storetest.Issued("spiffe://mesh/pgmesh/discovery/eu-1", "s-1")
	named.Authority = old[0].Fingerprint
	storetest.Record(t, recorded, named, unnamed)
	next, err := s.AddAuthority(t.Context(), certtest.NewAuthority(t).PEM, sealed, "ada")
	require.NoError(t, err)
	require.NoError(t, s.ActivateAuthority(t.Context(), next, true, "ada"))
	db.Exec("UPDATE mesh_internal.authority_keys SET replaced_at = now() - interval '10 minutes' WHERE state = 'previous'")
	db.Exec("UPDATE mesh.certificates SET at = now() - interval '11 minutes'")

	refusedFor(t, s.RetireAuthority(t.Context(), old[0].ID, false, "ada"), "2 members of the mesh have a certificate that authority 1 signed, such as spiffe://mesh/ns/shop/sa/cart")
	renewed := storetest.Issued(unnamed.Identity, unnamed.Enrolment)
	storetest.Record(t, recorded, renewed)
	refusedFor(t, s.RetireAuthority(t.Context(), old[0].ID, false, "ada"), "one member of the mesh has a certificate that authority 1 signed")
	late := storetest.Issued(named.Identity, named.Enrolment)
	late.Authority = old[0].Fingerprint
	storetest.Record(t, recorded, late)
	refusedFor(t, s.RetireAuthority(t.Context(), old[0].ID, false, "ada"), "one member of the mesh has")
	renewed = storetest.Issued(named.Identity, named.Enrolment)
	renewed.Authority = "another"
	storetest.Record(t, recorded, renewed)
	require.NoError(t, s.RetireAuthority(t.Context(), old[0].ID, false, "ada"))
}

func TestInvalidAuthoritiesAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	a := certtest.NewAuthority(t)
	leaf := a.Issue(nil)
	for says, c := range map[string]struct {
		chain []byte
		key   string
	}{
		"the key of the authority is not encrypted":                            {a.PEM, ""},
		"the key of the authority is not encrypted (have mcp-server make it":   {a.PEM, string(leaf.Key)},
		"the certificates of the authority have no certificate":                {[]byte("nothing"), sealed},
		"have a certificate that is none of an authority, number 1":            {leaf.Cert, sealed},
		"have a certificate that is none of an authority, number 2":            {append(append([]byte{}, a.PEM...), leaf.Cert...), sealed},
		"have a private key among them (leave it out":                          {append(append([]byte{}, a.PEM...), leaf.Key...), sealed},
		"have something that cannot be read as a certificate":                  {append(append([]byte{}, a.PEM...), "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----"...), sealed},
		"have a certificate that cannot be read, number 1":                     {[]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"), sealed},
		"the certificates of the authority are larger than 64 KiB (write the ": {[]byte(strings.Repeat(string(a.PEM), 120)), sealed},
	} {
		_, err := s.FirstAuthority(t.Context(), c.chain, c.key, "x")
		_, invalid := errors.AsType[*store.InvalidError](err)
		require.True(t, invalid, "%s: %v", says, err)
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "PRIVATE KEY")
	}
	require.Empty(t, states(t, s))
}

func TestTheKeysOfAuthoritiesAreEncryptedAnew(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	_, err := s.FirstAuthority(t.Context(), certtest.NewAuthority(t).PEM, sealed, "mcp-server")
	require.NoError(t, err)
	for _, c := range []struct {
		was  string
		done bool
	}{{"something else", false}, {sealed, true}, {sealed, false}} {
		done, err := s.ResealAuthority(t.Context(), 1, c.was, sealed+"BBBB")
		require.NoError(t, err)
		require.Equal(t, c.done, done)
	}
	list, err := s.AuthoritiesWithKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, sealed+"BBBB", list[0].SealedKey)
}

func TestWhoMaySeeAndChangeAuthorities(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	tenant, server := y.Role("tenant"), y.Role("server")
	y.Grant(tenant, "*", "write")
	y.Owner.Exec("SELECT mesh.grant_server('" + server + "')")
	s := openURL(t, y.Login(server))
	won, err := s.FirstAuthority(t.Context(), certtest.NewAuthority(t).PEM, sealed, "mcp-server")
	require.NoError(t, err)
	require.True(t, won)
	_, err = s.AuthoritiesWithKeys(t.Context())
	require.NoError(t, err)
	other := y.As(tenant)
	require.Equal(t, "active", storetest.Value[string](other, "SELECT state FROM mesh.authorities"))
	for _, sql := range []string{
		"SELECT * FROM mesh_internal.authority_keys", "SELECT mesh_internal.first_authority('', 'x')", "SELECT mesh_internal.add_authority('', 'x')", "SELECT mesh.activate_authority(1, true)",
		"SELECT mesh.retire_authority(1, true)", "SELECT mesh_internal.reseal_authority(1, '', 'x')",
	} {
		require.Equal(t, "42501", other.Refused(sql).Code, sql)
	}
	for _, view := range storetest.Collect[string](y.Owner, `SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind IN ('r', 'v')
		AND has_table_privilege($1, c.oid, 'SELECT')`, tenant) {
		for _, row := range storetest.Collect[string](other, "SELECT coalesce(t::text, '') FROM "+view+" t") {
			require.NotContains(t, row, sealed, view)
		}
	}
}
