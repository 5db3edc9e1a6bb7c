package callers_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/identity/callers"
	"github.com/pgmesh/pgmesh/store/notifications"
)

func tokenOf(name string, scopes ...string) callers.Token {
	hash := sha256.Sum256([]byte(name))
	return callers.Token{Name: name, Hash: hash[:], Scopes: scopes, By: "ada"}
}

func TestTokensAreKeptListedAndTakenBack(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	s, db := openURL(t, url), storetest.Connect(t, url)
	temporary := tokenOf("ci", "write:shop", "read")
	temporary.Expires = time.Now().Add(time.Hour).Truncate(time.Second)
	require.NoError(t, s.CreateToken(t.Context(), temporary))
	require.NoError(t, s.CreateToken(t.Context(), tokenOf("admin-2026.11_a", "admin")))

	require.ErrorIs(t, s.CreateToken(t.Context(), tokenOf("ci", "read")), callers.ErrTokenExists)
	revoked, err := s.RevokeToken(t.Context(), "ci", "grace")
	require.NoError(t, err)
	require.True(t, revoked)
	revoked, err = s.RevokeToken(t.Context(), "ci", "grace")
	require.NoError(t, err)
	require.False(t, revoked)
	again := tokenOf("ci", "read")
	again.Hash[0]++
	require.NoError(t, s.CreateToken(t.Context(), again), "the name is free again")

	list, err := s.Tokens(t.Context())
	require.NoError(t, err)
	require.Len(t, list, 3)
	old := list[1]
	require.Equal(t, []string{"admin-2026.11_a", "ci", "ci"}, []string{list[0].Name, old.Name, list[2].Name})
	require.Equal(t, []string{"write:shop", "read"}, old.Scopes)
	require.Equal(t, temporary.Hash, old.Hash)
	require.True(t, temporary.Expires.Equal(old.Expires))
	require.False(t, old.Revoked.IsZero())
	require.Equal(t, []string{"ada", "grace"}, []string{old.By, old.Revoker})
	require.True(t, list[2].Expires.IsZero() && list[2].Revoked.IsZero() && list[2].Used.IsZero())

	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	require.NoError(t, s.NoteTokenUses(t.Context(), map[int64]time.Time{list[0].ID: at, list[2].ID: at}))
	require.NoError(t, s.NoteTokenUses(t.Context(), map[int64]time.Time{list[0].ID: at.Add(-time.Hour)}))
	require.Equal(t, "2026-01-02 03:04:00", storetest.Value[string](db, "SELECT (used_at AT TIME ZONE 'UTC')::text FROM mesh.tokens WHERE name LIKE 'admin%'"))
}

func TestTokensThatSayNothingAreRefused(t *testing.T) {
	t.Parallel()
	s := openURL(t, pgtest.New(t))
	past := tokenOf("a", "read")
	past.Expires = time.Now().Add(-time.Second)
	for says, token := range map[string]callers.Token{
		`'CI' is not a name for a token`:            tokenOf("CI", "read"),
		`'' is not a name for a token`:              tokenOf("", "read"),
		`'delete' is not a scope`:                   tokenOf("a", "read", "delete"),
		`'admin:shop' is not a scope`:               tokenOf("a", "admin:shop"),
		`a token has to have a scope`:               tokenOf("a"),
		`the token would have expired already`:      past,
		`(write read, write, secrets, sign, regist`: tokenOf("a", "read:"),
	} {
		err := s.CreateToken(t.Context(), token)
		invalid, ok := errors.AsType[*store.InvalidError](err)
		require.True(t, ok, "%v", err)
		require.ErrorContains(t, invalid, says)
	}
}

// What one program writes as a scope, the database takes.
func TestScopesAreWrittenInOneForm(t *testing.T) {
	t.Parallel()
	s := openURL(t, pgtest.New(t))
	scopes := []string{"read", "admin", "write:-,a,b-c:VirtualService,Gateway.gateway.networking.k8s.io", "read:*:meshconfig", "write:shop"}
	parsed, err := caller.ParseScopes(scopes)
	require.NoError(t, err)
	require.NoError(t, s.CreateToken(t.Context(), tokenOf("a", caller.Texts(parsed)...)))
}

func TestReadersAreCheckedAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	s, db := openURL(t, url), storetest.Connect(t, url)
	for sql, says := range map[string]string{
		`(identity) VALUES ('discovery')`:                                   `'discovery' is not a pattern of identities`,
		`(identity) VALUES ('spiffe://mesh/../a')`:                          `is not a pattern of identities`,
		`(identity) VALUES ('spiffe://*/a')`:                                `is not a pattern of identities`,
		`(identity) VALUES ('token:ci')`:                                    `is not a pattern of identities`,
		`(identity, namespaces) VALUES ('*', '{Shop}')`:                     `'Shop' is not a valid namespace`,
		`(identity, namespaces) VALUES ('*', '{NULL}')`:                     `is not a valid namespace`,
		`(identity, namespaces) VALUES ('*', '{}')`:                         `there is no namespace`,
		`(identity, kinds) VALUES ('*', '{}')`:                              `there is no kind`,
		`(identity, kinds) VALUES ('*', '{VirtualServise}')`:                `unknown kind "VirtualServise"`,
		`(identity, kinds) VALUES ('*', '{Gateway}')`:                       `Gateway is a kind of more than one group`,
		`(identity, labels) VALUES ('*', 'region=eu,')`:                     `'region=eu,' does not select by labels`,
		`(identity, labels) VALUES ('*', 'region in eu')`:                   `does not select by labels`,
		`(identity, labels) VALUES ('*', 'region=eu tier=web')`:             `does not select by labels`,
		`(identity, labels, kinds) VALUES ('*', '-a', '{Gateway.nowhere}')`: `does not select by labels`,
	} {
		err := db.Refused("INSERT INTO mesh.readers " + sql)
		require.Contains(t, err.Message, says, sql)
		require.NotEmpty(t, err.Hint, sql)
	}
	hint := db.Refused("INSERT INTO mesh.readers (identity, kinds) VALUES ('*', '{VirtualServise}')")
	require.Equal(t, []string{"23514", `did you mean "VirtualService"?`}, []string{hint.Code, hint.Hint})

	db.Exec(`INSERT INTO mesh.readers (identity, namespaces, kinds, labels) VALUES
		('spiffe://mesh/*/discovery', '{b,a,b}', '{VirtualService,Gateway.networking.istio.io,VirtualService.networking.istio.io}', 'region in (eu, us),!legacy'),
		('anonymous', '{a,*}', DEFAULT, DEFAULT)`)
	rows, err := s.Readers(t.Context())
	require.NoError(t, err)
	require.Equal(t, []callers.Reader{
		{"spiffe://mesh/*/discovery", []string{"a", "b"}, []string{"Gateway.networking.istio.io", "VirtualService"}, "region in (eu, us),!legacy"},
		{"anonymous", []string{"*"}, []string{"*"}, ""},
	}, rows)
}

// What the database takes, Go understands, and the other way round.
func TestPatternsAndSelectorsMeanTheSameInGo(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	db := storetest.Connect(t, url)
	accepted := func(column, text string) bool {
		_, err := db.Conn.Exec(t.Context(), "INSERT INTO mesh.readers (identity, labels) VALUES ($1, $2)",
			map[bool]string{true: text, false: "*"}[column == "identity"], map[bool]string{true: text, false: ""}[column == "labels"])
		return err == nil
	}
	for _, text := range []string{
		"*", "anonymous", "spiffe://a", "spiffe://a/b", "spiffe://a/*", "spiffe://a/*/c", "spiffe://a-b.c_d/E.F-G_h", "spiffe://a/...",
		"", "a", "spiffe://", "spiffe:///b", "spiffe://*", "spiffe://*/b", "spiffe://a/", "spiffe://a//b", "spiffe://a/.", "spiffe://a/../b", "spiffe://a/b/..",
		"spiffe://a/b*", "spiffe://a/**", "spiffe://A/b", "spiffe://a/b c", "spiffe://a/ü", "spiffe://a:1/b", "spiffe://a@b/c", "spiffe://a/b?c", "spiffe://a/b#c", "SPIFFE://a/b",
		" spiffe://a/b", "spiffe://a/b\n", "http://a/b", "token:a",
	} {
		_, err := caller.ParsePattern(text)
		require.Equal(t, err == nil, accepted("identity", text), "%q: %v", text, err)
	}
	for _, text := range []string{
		"", " ", "a", "!a", "! a", "a=b", "a==b", "a!=b", "a=", "a = b", "a in (b)", "a in (b, c)", "a notin (b,,c)", "a in ()", "a in ( )", "x.y/z=1", " a , b=c ", "a in (b),c",
		",", "a,", ",a", "a b", "a=b c", "a in b", "a in (b", "a in b)", "a of (b)", "a in(b)", "in in (in)", "-a", "a-", "a=-b", "a=b=c", "a<b", "ü=1", "a=ü", "!a=b", "a in (b c)", "a\n=\nb",
		"a in (b),,c", "(a)", "a in (b)(c)", "a=b,c in (d, e),!f", "a===b", "a/b/c=d", "a=b/c",
	} {
		_, err := selector.Parse(text)
		require.Equal(t, err == nil, accepted("labels", text), "%q: %v", text, err)
	}
}

func TestServersAreWokenByTheirTables(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	s, db := storetest.OpenURL(t, url), storetest.Connect(t, url)
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan string, 100), make(chan error, 1)
	go func() { ended <- notifications.Awaken(ctx, s, time.Hour, func(table string) { heard <- table }) }()
	require.Empty(t, <-heard, "all tables at first")
	db.Exec("INSERT INTO mesh.readers (identity) VALUES ('*')")
	require.Equal(t, "readers", <-heard)
	db.Exec("SELECT mesh.create_token('a', sha256('a'), '{read}')")
	require.Equal(t, "tokens", <-heard)
	db.Exec("SELECT mesh_internal.note_token_uses(ARRAY[(SELECT id FROM mesh.tokens)], ARRAY[now()]); TRUNCATE mesh.readers")
	require.Equal(t, "readers", <-heard, "that a token was used wakes nobody")
	db.Exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN mesh_servers%'")
	require.Empty(t, <-heard)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestLostNotificationsCostTime(t *testing.T) {
	t.Parallel()
	s := storetest.OpenURL(t, pgtest.New(t))
	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan string, 100), make(chan error, 1)
	go func() {
		ended <- notifications.Awaken(ctx, s, 20*time.Millisecond, func(table string) { heard <- table })
	}()
	for range 3 {
		require.Empty(t, <-heard)
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestWhoMayDecideWhoCalls(t *testing.T) {
	t.Parallel()
	y := storetest.NewTenancy(t)
	tenant, server := y.Role("tenant"), y.Role("server")
	y.Grant(tenant, "*", "write")
	y.Owner.Exec("SELECT mesh.grant_server('" + server + "')")
	for _, sql := range []string{
		"SELECT mesh.create_token('a', sha256('a'), '{admin}')", "SELECT mesh.revoke_token('a')", "SELECT mesh_internal.note_token_uses('{1}', '{now}')",
		"SELECT * FROM mesh.tokens", "SELECT * FROM mesh.readers", "INSERT INTO mesh.readers (identity) VALUES ('*')", "DELETE FROM mesh.readers",
	} {
		require.Equal(t, "42501", y.As(tenant).Refused(sql).Code, sql)
	}
	s := openURL(t, y.Login(server))
	require.NoError(t, s.CreateToken(t.Context(), tokenOf("a", "read")))
	revoked, err := s.RevokeToken(t.Context(), "a", "ada")
	require.NoError(t, err)
	require.True(t, revoked)
	_, err = s.Tokens(t.Context())
	require.NoError(t, err)
	_, err = s.Readers(t.Context())
	require.NoError(t, err)
	require.Equal(t, "42501", y.As(server).Refused("INSERT INTO mesh.readers (identity) VALUES ('*')").Code, "that is the owner's")
}
