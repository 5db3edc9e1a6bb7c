package rollout_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/store/rollout"
)

func TestRolloutStatusTellsHowFarARevisionIs(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	send := m.ReportRefusal()
	r := m.Run("rollout", "status")
	require.Equal(t, 7, r.Code)
	require.Contains(t, r.Err, "error: 1 of 3 proxies run revision 2, and 1 refuses some of it")
	require.Regexp(t, `\Arevision +2, committed \S+ by \S+
DISCOVERY +NAMESPACE +CONCERNED +RAN +REFUSED +TO ANSWER +AWAY +FIRST +HALF +LAST
eu-1 +bank +1 +0 +0 +1 +0 +- +- +-
eu-1 +shop +2 +1 +1 +0 +0 +\S+s +\S+s +\S+s
all +all +3 +1 +1 +1 +0 +\S+s +\S+s +\S+s

shop/pay.shop refuses, for \d+s, of the RouteConfigurations: 80
  no such thing
  made from virtualservice shop/web \(spec.http\[0\]\), which revision 2 changed last, by \S+
\z`, r.Out)
	r = m.Run("rollout", "status", "-n", "shop")
	require.NotContains(t, r.Out, "bank")
	require.Contains(t, r.Err, "1 of 2 proxies run revision 2")

	fixed := clitest.ProxyOf(2, "shop", "pay", "sidecar")
	fixed.Description = nil
	send(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{fixed}, Rollouts: []rollout.Rollout{{Revision: 2, After: 1, Began: time.Now(), Parts: []rollout.Part{
		{Namespace: "bank", Concerned: 1}, {Namespace: "shop", Concerned: 2, Ran: 2, Took: []uint64{2500, 9000}},
	}}}})
	r = m.Run("rollout", "status", "2")
	require.Equal(t, 8, r.Code)
	require.Contains(t, r.Err, "error: 2 of 3 proxies run revision 2 so far")
	r = m.Run("rollout", "status", "2", "-n", "shop", "-o", "json")
	require.Zero(t, r.Code, r.Err)
	var tree map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.Out), &tree))
	require.InEpsilon(t, 2, tree["ran"], 0)
	require.Len(t, tree["parts"], 1)
	require.Equal(t, "1\n", m.OK("rollout", "status", "1", "-o", "name"))

	r = m.Run("rollout", "status", "9")
	require.Equal(t, 1, r.Code)
	require.Contains(t, r.Err, "there is no revision 9")
	for _, args := range [][]string{{"rollout", "status", "-1"}, {"rollout", "status", "x"}, {"rollout", "stats"}, {"rollout", "history", "--limit", "0"}, {"rollout", "watch", "-o", "yaml"}} {
		require.Equal(t, 2, m.Run(args...).Code, args)
	}
}

func TestRolloutHistoryListsTheLatestFirst(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.ReportRefusal()
	require.Regexp(t, `\AREVISION +COMMITTED +AUTHOR +CONCERNED +RAN +REFUSED +TO ANSWER +AWAY +FIRST +HALF +LAST
2 +\S+ +\S+ +3 +1 +1 +1 +0 +\S+s +\S+s +\S+s
1 +\S+ +\S+ +0 +0 +0 +0 +0 +- +- +-
\z`, m.OK("rollout", "history"))
	require.Equal(t, clitest.Result{Out: "2\n", Err: "there are older ones; --limit 10 shows more\n"}, m.Run("rollout", "history", "--limit", "1", "-o", "name"))
	require.Equal(t, "2\n", m.OK("rollout", "history", "-o", `jsonpath={range [?(@.refused>0)]}{.revision}{end}`)+"\n")
}

func TestRolloutWatchPrintsWhatDiffers(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	send := m.ReportRefusal()
	w := m.Follow("rollout", "watch", "-n", "bank", "--count", "2", "-o", `jsonpath={.revision} {.ran}/{.concerned}`)
	require.Equal(t, []string{"2 0/1"}, w.Lines(w.Out, 1))
	send(rollout.Message{Revision: 2, Rollouts: []rollout.Rollout{{Revision: 2, After: 1, Began: time.Now(), Parts: []rollout.Part{
		{Namespace: "bank", Concerned: 1, Ran: 1, Took: []uint64{90}},
	}}}})
	require.Equal(t, []string{"2 1/1"}, w.Lines(w.Out, 1))
	require.Regexp(t, `(?m)^2 +1 +1 +0 +0 +0 `, m.OK("rollout", "watch", "-n", "bank", "--count", "1"))
}
