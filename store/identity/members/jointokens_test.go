package members_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/members"
)

// redeem uses one token and returns what came of it.
func redeem(t *testing.T, s mesh, j members.Joining) members.Joined {
	t.Helper()
	answers, err := s.RedeemMachines(t.Context(), "spiffe://mesh/pgmesh/discovery/eu-1", []members.Joining{j})
	require.NoError(t, err)
	require.Len(t, answers, 1)
	return answers[0]
}

func TestATokenIsUsedOnceAndAgainByTheSameKey(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	require.NoError(t, s.CreateJoinToken(t.Context(), storetest.JoinToken("web")))

	first := redeem(t, s, storetest.Joining("web", "key"))
	require.Regexp(t, `^m-[a-z2-7]{16}$`, first.Enrolment)
	require.Equal(t, members.Joined{Token: "web", Namespace: "shop", ServiceAccount: "cart", Enrolment: first.Enrolment}, first)
	require.Equal(t, first, redeem(t, s, storetest.Joining("web", "key")), "its answer was lost")
	other := redeem(t, s, storetest.Joining("web", "another key"))
	require.Equal(t, "token_used", other.Refusal)
	require.Equal(t, "the join token was used once, as often as it may be", other.Detail)
	require.Empty(t, other.Enrolment)

	list, err := s.JoinTokens(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, []any{"web", 1, 1, "used", "ada"}, []any{list[0].Name, list[0].Uses, list[0].MaxUses, list[0].State, list[0].By})
	require.False(t, list[0].Used.IsZero())
	require.Equal(t, "10.0.0.1:4711 spiffe://mesh/pgmesh/discovery/eu-1", storetest.Value[string](db, "SELECT peer || ' ' || server FROM mesh_internal.join_redemptions"))
}

func TestRefusalsOfTokensSayWhy(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	for _, name := range []string{"revoked", "expired", "machine", "later"} {
		require.NoError(t, s.CreateJoinToken(t.Context(), storetest.JoinToken(name)))
	}
	server := storetest.JoinToken("server")
	server.Namespace, server.ServiceAccount, server.Program = "", "", "discovery"
	require.NoError(t, s.CreateJoinToken(t.Context(), server))
	kept := redeem(t, s, storetest.Joining("later", "key"))
	revoked, err := s.RevokeJoinToken(t.Context(), "revoked", "grace")
	require.NoError(t, err)
	require.True(t, revoked)
	revoked, err = s.RevokeJoinToken(t.Context(), "revoked", "grace")
	require.NoError(t, err)
	require.False(t, revoked)
	db.Exec("UPDATE mesh_internal.join_token_hashes SET expires_at = now() WHERE name = 'expired'")

	answers, err := s.RedeemMachines(t.Context(), "discovery", []members.Joining{
		storetest.Joining("nobody's", "a"), storetest.Joining("revoked", "b"), storetest.Joining("expired", "c"), storetest.Joining("server", "d"), storetest.Joining("machine", "e"), storetest.Joining("machine", "f"), storetest.Joining("later", "key"),
	})
	require.NoError(t, err)
	refusals := make([]string, len(answers))
	for i, a := range answers {
		refusals[i] = a.Refusal
		require.Equal(t, a.Refusal == "", a.Detail == "", a)
		require.Equal(t, a.Refusal == "", a.Enrolment != "", a)
	}
	require.Equal(t, []string{"token_unknown", "token_revoked", "token_expired", "token_unknown", "", "token_used", ""}, refusals)
	require.Equal(t, kept, answers[6])
	for _, i := range []int{1, 2, 5} {
		require.Equal(t, []string{"shop", "cart"}, []string{answers[i].Namespace, answers[i].ServiceAccount}, "it is known whose token it was")
	}

	one, err := s.RedeemServer(t.Context(), "mcp-server", storetest.Joining("machine", "e"))
	require.NoError(t, err)
	require.Equal(t, "token_unknown", one.Refusal)
	require.Contains(t, one.Detail, "a join token of machines")
	one, err = s.RedeemServer(t.Context(), "mcp-server", storetest.Joining("server", "d"))
	require.NoError(t, err)
	require.Equal(t, members.Joined{Token: "server", Program: "discovery", Enrolment: one.Enrolment}, one)
	require.Regexp(t, `^s-[a-z2-7]{16}$`, one.Enrolment)

	db.Exec("UPDATE mesh_internal.join_token_hashes SET expires_at = now() WHERE name = 'later'")
	require.Equal(t, "token_expired", redeem(t, s, storetest.Joining("later", "key")).Refusal, "the same key comes too late as well")
}

func TestAGroupsMachinesAreOfTheServiceAccountThatItNames(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	token := storetest.JoinToken("group")
	token.ServiceAccount, token.WorkloadGroup, token.MaxUses = "", "cart", 3
	_, invalid := errors.AsType[*store.InvalidError](s.CreateJoinToken(t.Context(), token))
	require.True(t, invalid)
	require.ErrorContains(t, s.CreateJoinToken(t.Context(), token), "there is no WorkloadGroup shop/cart (write it first; or make the token for a service account)")

	db.Exec(`INSERT INTO mesh.workload_groups (namespace, name, spec) VALUES ('shop', 'cart', '{"template": {}}')`)
	require.NoError(t, s.CreateJoinToken(t.Context(), token))
	first := redeem(t, s, storetest.Joining("group", "a"))
	require.Equal(t, []string{"shop", "default", "cart"}, []string{first.Namespace, first.ServiceAccount, first.WorkloadGroup})
	db.Exec(`UPDATE mesh.workload_groups SET spec = '{"template": {"serviceAccount": "carts"}}'`)
	require.Equal(t, "carts", redeem(t, s, storetest.Joining("group", "b")).ServiceAccount)
	require.Equal(t, first, redeem(t, s, storetest.Joining("group", "a")), "what was granted stays")

	db.Exec("DELETE FROM mesh.workload_groups")
	gone := redeem(t, s, storetest.Joining("group", "c"))
	require.Equal(t, "token_revoked", gone.Refusal)
	require.Equal(t, "the WorkloadGroup shop/cart that the join token is for is gone", gone.Detail)
}

func TestARevokedIdentityOrMachineJoinsNoMore(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	token := storetest.JoinToken("web")
	token.MaxUses = 5
	require.NoError(t, s.CreateJoinToken(t.Context(), token))
	machine := redeem(t, s, storetest.Joining("web", "key"))
	changed, err := s.trust.RevokeMachine(t.Context(), machine.Enrolment, "stolen", "ada")
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, "revoked", redeem(t, s, storetest.Joining("web", "key")).Refusal)
	require.Empty(t, redeem(t, s, storetest.Joining("web", "another key")).Refusal)

	changed, err = s.trust.RevokeIdentity(t.Context(), "shop", "cart", "leaked", "ada")
	require.NoError(t, err)
	require.True(t, changed)
	refused := redeem(t, s, storetest.Joining("web", "a third"))
	require.Equal(t, "revoked", refused.Refusal)
	_, err = s.trust.RestoreIdentity(t.Context(), "shop", "cart", "ada")
	require.NoError(t, err)
	require.Empty(t, redeem(t, s, storetest.Joining("web", "a third")).Refusal)
	_, err = s.trust.RestoreMachine(t.Context(), machine.Enrolment, "ada")
	require.NoError(t, err)
	require.Equal(t, machine, redeem(t, s, storetest.Joining("web", "key")))
}

// Many servers use up the same tokens at once, in batches that name them in different orders: no
// token is used more often than it may be, no batch fails, and no two machines are called the same.
func TestTokensAreUsedUpBesideOthers(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	s := openURL(t, url)
	const tokens, uses, servers, machines = 3, 10, 6, 8
	for i := range tokens {
		token := storetest.JoinToken(fmt.Sprintf("t%d", i))
		token.MaxUses = uses
		require.NoError(t, s.CreateJoinToken(t.Context(), token))
	}
	var joined, refused atomic.Int64
	var group errgroup.Group
	for server := range servers {
		own := openURL(t, url)
		group.Go(func() error {
			var batch []members.Joining
			for i := range tokens * machines {
				token := (i + server) % tokens
				batch = append(batch, storetest.Joining(fmt.Sprintf("t%d", token), fmt.Sprintf("%d-%d", server, i)))
			}
			answers, err := own.RedeemMachines(t.Context(), "discovery", batch)
			for _, a := range answers {
				switch a.Refusal {
				case "":
					joined.Add(1)
				case "token_used":
					refused.Add(1)
				default:
					return fmt.Errorf("%+v", a)
				}
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, int64(tokens*uses), joined.Load())
	require.Equal(t, int64(tokens*(servers*machines-uses)), refused.Load())
	require.Equal(t, int64(tokens*uses), storetest.Value[int64](storetest.Connect(t, url), "SELECT count(DISTINCT enrolment) FROM mesh_internal.join_redemptions"))
}

func TestJoinTokensThatNobodyCouldUseAreRefused(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	for says, change := range map[string]func(*members.JoinToken){
		`'Web' is not a name for a token`:                                        func(j *members.JoinToken) { j.Name = "Web" },
		`'Shop' is not a valid namespace`:                                        func(j *members.JoinToken) { j.Namespace = "Shop" },
		`'../cart' is not a valid service account`:                               func(j *members.JoinToken) { j.ServiceAccount = "../cart" },
		`'..' is not a valid service account`:                                    func(j *members.JoinToken) { j.ServiceAccount = ".." },
		`for one of a service account, a WorkloadGroup and a server (name one`:   func(j *members.JoinToken) { j.ServiceAccount = "" },
		`a join token is for one of a service account`:                           func(j *members.JoinToken) { j.Program = "discovery" },
		`'cook' is no server that has an identity (write mcp-server or discov`:   func(j *members.JoinToken) { j.ServiceAccount, j.Program = "", "cook" },
		`servers belong to no namespace`:                                         func(j *members.JoinToken) { j.ServiceAccount, j.Program = "", "discovery" },
		`a join token cannot be used 0 times`:                                    func(j *members.JoinToken) { j.MaxUses = 0 },
		`a join token cannot be used 1000001 times (let it be used once to a mi`: func(j *members.JoinToken) { j.MaxUses = 1000001 },
		`a join token has to expire`:                                             func(j *members.JoinToken) { j.Expires = time.Time{} },
		`the token would have expired already`:                                   func(j *members.JoinToken) { j.Expires = time.Now().Add(-time.Second) },
	} {
		token := storetest.JoinToken("web")
		change(&token)
		err := s.CreateJoinToken(t.Context(), token)
		_, invalid := errors.AsType[*store.InvalidError](err)
		require.True(t, invalid, "%s: %v", says, err)
		require.ErrorContains(t, err, says)
	}
}

func TestTheNameOfASpentTokenIsFreeAgain(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	require.NoError(t, s.CreateJoinToken(t.Context(), storetest.JoinToken("web")))
	again := storetest.JoinToken("web")
	again.Hash = storetest.HashOf("again")
	require.ErrorIs(t, s.CreateJoinToken(t.Context(), again), members.ErrTokenExists)
	first := redeem(t, s, storetest.Joining("web", "key"))
	require.NoError(t, s.CreateJoinToken(t.Context(), again))
	require.Equal(t, first, redeem(t, s, storetest.Joining("web", "key")), "who has used the first may ask again")
	revoked, err := s.RevokeJoinToken(t.Context(), "web", "ada")
	require.NoError(t, err)
	require.True(t, revoked)
	require.Equal(t, "token_revoked", redeem(t, s, storetest.Joining("again", "key")).Refusal, "the name means the second")
}

func TestWhoMayMakeJoinTokens(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	tenant, server := y.Tenant("tenant", [2]string{"b", "read"}), y.Role("server")
	y.Owner.Exec("SELECT mesh.grant_server('" + server + "')")
	create := func(name, namespace, program string) string {
		return fmt.Sprintf("SELECT mesh.create_join_token('%s', sha256('%s'), '%s', nullif('%s', ''), NULL, nullif('%s', ''), 1, now() + interval '1 hour')",
			name, name, namespace, map[bool]string{true: "cart"}[program == ""], program)
	}
	tenant.Exec(create("mine", "a", ""))
	for _, sql := range []string{
		create("theirs", "b", ""), create("everybodys", "c", ""), create("server", "", "discovery"), "SELECT * FROM mesh_internal.join_token_hashes",
		"SELECT * FROM mesh_internal.join_redemptions", "SELECT * FROM mesh_internal.redeem_join_tokens('{}', '{}', '{}', 'x')",
	} {
		require.Equal(t, "42501", tenant.Refused(sql).Code, sql)
	}
	y.Owner.Exec(create("theirs", "b", ""))
	y.Owner.Exec(create("elsewhere", "c", ""))
	y.As(server).Exec(create("server", "", "discovery"))
	const all = "SELECT string_agg(name, ' ' ORDER BY name) FROM mesh.join_tokens"
	require.Equal(t, "mine theirs", storetest.Value[string](tenant, all))
	require.Equal(t, "elsewhere mine server theirs", storetest.Value[string](y.As(server), all))
	require.False(t, storetest.Value[bool](tenant, "SELECT mesh.revoke_join_token('elsewhere')"), "as if there were none")
	require.Equal(t, "42501", tenant.Refused("SELECT mesh.revoke_join_token('theirs')").Code)
	require.True(t, storetest.Value[bool](tenant, "SELECT mesh.revoke_join_token('mine')"))
}

func TestTokensOfOthersAreNotRevoked(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	server := storetest.JoinToken("server")
	server.Namespace, server.ServiceAccount, server.Program = "", "", "discovery"
	for _, token := range []members.JoinToken{storetest.JoinToken("web"), server} {
		require.NoError(t, s.CreateJoinToken(t.Context(), token))
	}
	for _, c := range []struct {
		name       string
		namespaces []string
		servers    bool
		revoked    bool
	}{
		{"web", []string{"bank"}, false, false},
		{"web", []string{}, true, false},
		{"server", nil, false, false},
		{"server", []string{"", "shop"}, false, false},
		{"web", []string{"bank", "shop"}, false, true},
		{"server", []string{}, true, true},
	} {
		revoked, err := s.RevokeJoinTokenAmong(t.Context(), c.name, c.namespaces, c.servers, "ada")
		require.NoError(t, err)
		require.Equal(t, c.revoked, revoked, "%+v", c)
	}
}
