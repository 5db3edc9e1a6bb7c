package members_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/identity/members"
)

func TestRecordingAgainHasNoEffect(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	given := storetest.Issued("spiffe://mesh/ns/shop/sa/cart", "m-1")
	refused := storetest.Issued("", "")
	refused.Refusal, refused.Detail, refused.NotAfter, refused.Serial, refused.At = "token_used", "used \x00\xff once", time.Time{}, "", given.At.Add(time.Second)
	storetest.Record(t, s, given, refused)
	storetest.Record(t, s, refused, given, given)
	storetest.Record(t, s)
	list, err := s.Issues(t.Context(), members.IssueFilter{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 2)
	given.Times, refused.Times = 1, 1
	given.Server = "spiffe://mesh/pgmesh/discovery/eu-1"
	refused.Server, refused.Detail = given.Server, "used \uFFFD\uFFFD once"
	for i, want := range []members.Issue{refused, given} {
		require.True(t, want.At.Equal(list[i].At) && want.NotAfter.Equal(list[i].NotAfter))
		require.True(t, list[i].First.IsZero())
		list[i].At, list[i].NotAfter, list[i].First = want.At, want.NotAfter, want.First
		require.Equal(t, want, list[i])
	}
	for n, f := range map[int]members.IssueFilter{
		1: {Refused: true, Limit: 10}, 2: {Limit: 10, After: given.At.Add(-time.Second)}, 0: {Identity: "spiffe://mesh/ns/shop/sa/other", Limit: 10},
	} {
		found, err := s.Issues(t.Context(), f)
		require.NoError(t, err)
		require.Len(t, found, n, f)
	}
	for _, f := range []members.IssueFilter{
		{Limit: 1, Namespaces: []string{"shop"}},
		{Limit: 9, Identity: given.Identity},
		{Limit: 9, Enrolment: "m-1"},
	} {
		found, err := s.Issues(t.Context(), f)
		require.NoError(t, err)
		require.Len(t, found, 1, f)
		require.Equal(t, "m-1", found[0].Enrolment)
	}
}

func TestMachinesAreThoseWithACertificateInForce(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	first, renewed := storetest.Issued("spiffe://mesh/ns/shop/sa/cart", "m-1"), storetest.Issued("spiffe://mesh/ns/shop/sa/cart", "m-1")
	renewed.At, renewed.Serial, renewed.NotAfter = first.At.Add(time.Second), "new", first.NotAfter.Add(time.Hour)
	ended, refused := storetest.Issued("spiffe://mesh/ns/shop/sa/cart", "m-2"), storetest.Issued("spiffe://mesh/ns/shop/sa/cart", "m-3")
	ended.NotAfter = time.Now().Add(-time.Second)
	refused.Refusal = "revoked"
	storetest.Record(t, s, renewed, first, ended, refused, storetest.Issued("spiffe://mesh/ns/bank/sa/vault", "m-4"), storetest.Issued("spiffe://mesh/pgmesh/discovery/eu-1", "s-1"))
	machines := func(namespaces ...string) (names []string) {
		list, err := s.Machines(t.Context(), namespaces)
		require.NoError(t, err)
		for _, m := range list {
			name := m.Namespace + " " + m.Enrolment + " " + m.Serial
			if m.Revoked {
				name += " revoked"
			}
			names = append(names, name)
		}
		return names
	}
	require.Equal(t, []string{" s-1 0a1b", "bank m-4 0a1b", "shop m-1 new"}, machines())
	require.Equal(t, []string{"bank m-4 0a1b"}, machines("bank"))
	for _, revoke := range []func() (bool, error){
		func() (bool, error) { return s.trust.RevokeMachine(t.Context(), "m-1", "stolen", "ada") },
		func() (bool, error) { return s.trust.RevokeIdentity(t.Context(), "bank", "vault", "leaked", "ada") },
		func() (bool, error) { return s.trust.RevokeServer(t.Context(), "discovery", "eu-1", "", "ada") },
	} {
		fresh, err := revoke()
		require.NoError(t, err)
		require.True(t, fresh)
		fresh, err = revoke()
		require.NoError(t, err)
		require.False(t, fresh)
	}
	require.Equal(t, []string{" s-1 0a1b revoked", "bank m-4 0a1b revoked", "shop m-1 new revoked"}, machines())
}

func TestTheRecordIsKeptForATime(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	long, ended, young, refused := storetest.Issued("a", "1"), storetest.Issued("a", "2"), storetest.Issued("a", "3"), storetest.Issued("a", "4")
	refused.Refusal, refused.NotAfter, ended.NotAfter = "revoked", time.Time{}, time.Now().Add(-time.Hour)
	for _, old := range []*members.Issue{&long, &ended, &refused} {
		old.At = time.Now().Add(-8 * 24 * time.Hour)
	}
	storetest.Record(t, s, long, ended, young, refused)
	require.NoError(t, s.CreateJoinToken(t.Context(), storetest.JoinToken("old")))
	require.NoError(t, s.CreateJoinToken(t.Context(), storetest.JoinToken("new")))
	redeem(t, s, storetest.Joining("old", "key"))
	db.Exec("UPDATE mesh_internal.join_token_hashes SET expires_at = now() - interval '8 days' WHERE name = 'old'")
	prune := func(rows int) int64 {
		pruned, err := s.PruneCertificates(t.Context(), rows)
		require.NoError(t, err)
		return pruned
	}
	require.Zero(t, prune(10))
	db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('certificates_max_age', '7 days')")
	require.Equal(t, []int64{1, 2, 0}, []int64{prune(1), prune(10), prune(10)})
	require.Equal(t, []string{"1", "3"}, storetest.Collect[string](db, "SELECT enrolment FROM mesh.certificates ORDER BY 1"), "what is in force stays, and what is young")
	require.Equal(t, []string{"new"}, storetest.Collect[string](db, "SELECT name FROM mesh.join_tokens"))
}

func TestTheRecordIsBounded(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	var all []members.Issue
	for i := range 8 {
		one := storetest.Issued("spiffe://mesh/ns/a/sa/x", fmt.Sprint(i))
		one.At, one.Credential = time.Now().Add(time.Duration(i-10)*time.Hour), "certificate"
		if i < 5 {
			one.NotAfter = one.At.Add(time.Hour) // it has ended
		}
		if i < 2 {
			one.Credential = "token"
		}
		all = append(all, one)
	}
	storetest.Record(t, s, all...)
	kept := func(most int) []string {
		db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('certificates_max', $1) ON CONFLICT (name, namespace) DO UPDATE SET value = EXCLUDED.value", fmt.Sprint(most))
		for {
			pruned, err := s.PruneCertificates(t.Context(), 1)
			require.NoError(t, err)
			if pruned == 0 {
				return storetest.Collect[string](db, "SELECT enrolment FROM mesh.certificates ORDER BY at")
			}
		}
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7"}, kept(8))
	require.Equal(t, []string{"0", "1", "4", "5", "6", "7"}, kept(6), "the oldest renewals go first")
	require.Equal(t, []string{"1", "5", "6", "7"}, kept(4), "then others")
	require.Equal(t, []string{"5", "6", "7"}, kept(1), "what is in force stays")
}

func TestWhoSeesTheRecord(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	storetest.Record(t, openURL(t, y.URL), storetest.Issued("spiffe://mesh/ns/a/sa/x", "m-1"), storetest.Issued("spiffe://mesh/ns/b/sa/x", "m-2"), storetest.Issued("spiffe://mesh/pgmesh/discovery/d", "s-1"), storetest.Issued("", ""))
	tenant, global := y.Tenant("tenant", [2]string{"", "read"}), y.Role("global")
	y.Grant(global, "*", "read")
	const all = "SELECT enrolment FROM mesh.certificates ORDER BY 1"
	require.Equal(t, []string{"m-1"}, storetest.Collect[string](tenant, all), "nor is what names nobody theirs")
	require.Equal(t, []string{"", "m-1", "m-2", "s-1"}, storetest.Collect[string](y.As(global), all))
	require.Equal(t, []string{"m-1"}, storetest.Collect[string](tenant, "SELECT enrolment FROM mesh.machines"))
	for _, sql := range []string{
		"DELETE FROM mesh.certificates", "UPDATE mesh.certificates SET refusal = 'x'", "INSERT INTO mesh.certificates (id, at, server) VALUES (gen_random_uuid(), now(), 'x')",
		"SELECT mesh_internal.record_certificates('x', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')", "SELECT mesh_internal.prune_certificates()",
		"SELECT * FROM mesh_internal.last_certificates", "DELETE FROM mesh.revocations",
	} {
		require.Equal(t, "42501", tenant.Refused(sql).Code, sql)
	}
}

func TestWhoMayRevoke(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	s := openURL(t, y.URL)
	storetest.Record(t, s, storetest.Issued("spiffe://mesh/ns/a/sa/x", "m-1"), storetest.Issued("spiffe://mesh/ns/b/sa/x", "m-2"), storetest.Issued("spiffe://mesh/ns/c/sa/x", "m-3"), storetest.Issued("spiffe://mesh/pgmesh/discovery/d", "s-1"))
	tenant := y.Tenant("tenant", [2]string{"b", "read"})
	require.True(t, storetest.Value[bool](tenant, "SELECT mesh.revoke_machine('m-1', 'stolen')"))
	require.True(t, storetest.Value[bool](tenant, "SELECT mesh.revoke_identity('a', 'x')"))
	for _, sql := range []string{
		"SELECT mesh.revoke_identity('b', 'x')", "SELECT mesh.revoke_machine('m-2')", "SELECT mesh.revoke_server('discovery', 'd')",
		"SELECT mesh.restore_identity('b', 'x')", "SELECT mesh.restore_machine('m-2')", "SELECT mesh.restore_server('discovery', 'd')",
	} {
		require.Equal(t, "42501", tenant.Refused(sql).Code, sql)
	}
	for _, unknown := range []string{"m-3", "s-1", "m-9", ""} {
		require.Contains(t, tenant.Refused("SELECT mesh.revoke_machine('"+unknown+"')").Message, "has ever joined", "what cannot be seen is told as what is not there")
	}
	require.Equal(t, "a m-1 stolen", storetest.Value[string](tenant, "SELECT string_agg(concat_ws(' ', namespace, enrolment, reason), ',') FROM mesh.revocations WHERE enrolment <> ''"))
	y.Owner.Exec("SELECT mesh.revoke_machine('m-3'), mesh.revoke_machine('s-1')")
	require.Equal(t, int64(2), storetest.Value[int64](tenant, "SELECT count(*) FROM mesh.revocations"))
	require.True(t, storetest.Value[bool](tenant, "SELECT mesh.restore_machine('m-1')"))
	require.False(t, storetest.Value[bool](tenant, "SELECT mesh.restore_machine('m-1')"))

	list, err := s.trust.Revocations(t.Context(), []string{"a"})
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, "ns/a/sa/x", list[0].Identity)
	require.True(t, list[0].Lifted.IsZero())
	require.Equal(t, "m-1", list[1].Enrolment)
	require.False(t, list[1].Lifted.IsZero())
	require.Equal(t, []string{tenant.Conn.Config().User, tenant.Conn.Config().User}, []string{list[1].By, list[1].Lifter})
	namespace, err := s.trust.NamespaceOf(t.Context(), "s-1")
	require.NoError(t, err)
	require.Empty(t, namespace)
}
