package members_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/identity/members"
)

// guess is a refusal of somebody who knows nothing, at a moment of an hour that is over.
func guess(n int, peer string) members.Issue {
	i := storetest.Issued("", "")
	i.Refusal, i.Detail, i.Peer, i.NotAfter, i.Serial = "token_unknown", "there is no such join token", peer, time.Time{}, ""
	i.At = time.Now().Truncate(time.Hour).Add(-time.Hour + time.Duration(n)*time.Millisecond)
	return i
}

func TestGuessesAreCounted(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	used := storetest.Issued("spiffe://mesh/ns/shop/sa/cart", "")
	used.Refusal, used.Detail, used.At = "token_used", "the join token was used once", guess(500, "").At
	var batch []members.Issue
	for n := range 1000 {
		if batch = append(batch, guess(n, fmt.Sprintf("[2001:db8:0:%x::%x]:%d", n%2, n, 1000+n))); n == 500 {
			batch = append(batch, used)
		}
		if len(batch) >= 300 || n == 999 {
			storetest.Record(t, s, batch...)
			storetest.Record(t, s, batch...) // for its answer may have been lost
			batch = nil
		}
	}
	list, err := s.Issues(t.Context(), members.IssueFilter{Limit: 100})
	require.NoError(t, err)
	require.Len(t, list, 3)
	for i, last := range []int{999, 998} {
		require.Equal(t, "token_unknown", list[i].Refusal)
		require.EqualValues(t, 500, list[i].Times)
		require.True(t, guess(last, "").At.Equal(list[i].At))
		require.True(t, guess(1-i, "").At.Equal(list[i].First))
		require.Equal(t, fmt.Sprintf("[2001:db8:0:%x::%x]:%d", last%2, last, 1000+last), list[i].Peer)
	}
	require.Equal(t, []any{"token_used", used.Identity, int64(1), true}, []any{list[2].Refusal, list[2].Identity, list[2].Times, list[2].First.IsZero()})
}

func TestDifferentRefusalsHaveTheirOwnRows(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	var all []members.Issue
	for n, change := range []func(*members.Issue){
		func(*members.Issue) {},
		func(i *members.Issue) { i.Detail = "it is too short" },
		func(i *members.Issue) { i.Peer = "10.0.0.1:9" },
		func(i *members.Issue) { i.Peer = "10.0.0.2:1" },
		func(i *members.Issue) { i.Peer = "[::ffff:10.0.0.2]:1" },
		func(i *members.Issue) { i.Peer = "[fe80::1%eth0]:1" },
		func(i *members.Issue) { i.Peer = "[fe80::2%eth1]:1" },
		func(i *members.Issue) { i.Peer = "@" },
		func(i *members.Issue) { i.Refusal = "no_credential" },
		func(i *members.Issue) { i.Identity = "spiffe://mesh/ns/shop/sa/cart" },
		func(i *members.Issue) { i.Enrolment = "m-1" },
		func(i *members.Issue) { i.Credential = "jwt" },
		func(i *members.Issue) { i.At = i.At.Add(-time.Hour) },
	} {
		i := guess(n, "10.0.0.1:1")
		change(&i)
		all = append(all, i)
		storetest.Record(t, s, i)
	}
	storetest.Record(t, s, all...)
	db := storetest.Connect(t, url)
	require.Equal(t, 10, storetest.Value[int](db, "SELECT count(*) FROM mesh.certificates"))
	require.Equal(t, len(all), storetest.Value[int](db, "SELECT sum(times) FROM mesh.certificates"))
	require.Equal(t, "there is no such join token; also: it is too short",
		storetest.Value[string](db, "SELECT detail FROM mesh.certificates WHERE times = 3"))
}

// Whoever has many addresses pushes out guesses, and nothing of members.
func TestRefusalsAreBounded(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('refusals_max', '100')")
	used := guess(0, "10.1.1.1:1")
	used.Refusal, used.Identity = "token_used", "spiffe://mesh/ns/shop/sa/cart"
	storetest.Record(t, s, used, storetest.Issued("spiffe://mesh/ns/shop/sa/cart", "m-1"))
	for from := 0; from < 1000; from += 250 {
		var batch []members.Issue
		for n := from; n < from+250; n++ {
			batch = append(batch, guess(n, fmt.Sprintf("10.0.%d.%d:1", n/250, n%250)))
		}
		storetest.Record(t, s, batch...)
		require.Equal(t, 100, storetest.Value[int](db, "SELECT count(*) FROM mesh.certificates WHERE refusal = 'token_unknown'"))
	}
	require.Equal(t, "10.0.3.150:1", storetest.Value[string](db, "SELECT peer FROM mesh.certificates WHERE refusal = 'token_unknown' ORDER BY at LIMIT 1"), "the newest are kept")
	require.Equal(t, 2, storetest.Value[int](db, "SELECT count(*) FROM mesh.certificates WHERE identity <> ''"))
}
