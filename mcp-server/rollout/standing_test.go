package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	rolloutv1 "github.com/pgmesh/pgmesh/proto/pgmesh/rollout/v1"
)

// commit makes a revision, as old as is said.
func (s *server) commit(name, age string) {
	s.t.Helper()
	_, err := s.conn.Exec(s.t.Context(), `INSERT INTO mesh.service_entries (namespace, name, spec) VALUES ('shop', $1, jsonb_build_object('hosts', jsonb_build_array($1 || '.shop')))`, name)
	require.NoError(s.t, err)
	_, err = s.conn.Exec(s.t.Context(), `UPDATE mesh_internal.transactions SET time = now() - $1::interval WHERE revision = mesh.newest_revision()`, age)
	require.NoError(s.t, err)
}

// gauges are the metrics of proxies, by the state if there is one, and else by the name.
func (s *server) gauges() map[string]float64 {
	s.t.Helper()
	values := map[string]float64{}
	found, err := s.metrics.Gather()
	require.NoError(s.t, err)
	for _, family := range found {
		for _, m := range family.GetMetric() {
			switch family.GetName() {
			case "pgmesh_rollout_proxies":
				values[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			case "pgmesh_rollout_oldest_behind_seconds":
				values["oldest"] = m.GetGauge().GetValue()
			}
		}
	}
	return values
}

func TestMetricsTellHowProxiesOfTheMeshStand(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.commit("a", "3 hours")
	s.commit("b", "2 hours")
	s.commit("c", "1 hour")
	one, two := s.discovery("eu-1"), s.discovery("eu-2")
	late, fresh, refuses := proxy(1, "late"), proxy(2, "fresh"), proxy(3, "refuses")
	late.State, late.Sent, late.Runs = rolloutv1.Proxy_STATE_SILENT, 3, 1
	fresh.State, fresh.Sent = rolloutv1.Proxy_STATE_SENDING, 3
	refuses.State, refuses.Sent, refuses.Runs, refuses.Refused = rolloutv1.Proxy_STATE_REFUSED, 3, 0, 2
	one.told(3, late, fresh, refuses)
	two.told(3, proxy(1, "well"), proxy(2, "gone"))
	require.NoError(t, two.tell(&rolloutv1.ReportRequest{Revision: 3, Gone: []uint64{2}}))
	values := s.gauges()
	require.InDelta(t, 7200, values["oldest"], 60, "revision 2 is what the late one does not run")
	delete(values, "oldest")
	require.Equal(t, map[string]float64{"synced": 1, "sending": 1, "refused": 1, "silent": 1, "away": 1}, values)
}

func TestWhoKeepsUpIsNotBehind(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.commit("a", "3 hours")
	s.commit("b", "2 hours")
	refuses := proxy(1, "refuses")
	refuses.State, refuses.Sent, refuses.Runs, refuses.Refused = rolloutv1.Proxy_STATE_REFUSED, 2, 1, 1
	s.discovery("eu-1").told(2, refuses, proxy(2, "well"))
	require.Zero(t, s.gauges()["oldest"], "who refuses something counts as that alone")
}
