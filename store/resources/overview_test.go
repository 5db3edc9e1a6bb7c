package resources_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/resources"
)

func TestOverviewCounts(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	empty, err := s.Overview(t.Context())
	require.NoError(t, err)
	require.Equal(t, resources.Overview{Oldest: 1, Kinds: []resources.KindCount{}}, empty)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	db.Put("y", "a")
	db.Exec("BEGIN; SELECT mesh.commit_confirmed('1 hour'); INSERT INTO mesh.destination_rules (name, host) VALUES ('x', 'a'); COMMIT")

	o, err := s.Overview(t.Context())

	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), o.NewestTime, time.Minute)
	require.Equal(t, []resources.KindCount{{"networking.istio.io", "DestinationRule", 1}, {"networking.istio.io", "VirtualService", 2}}, o.Kinds)
	require.Equal(t, []int64{3, 1, 1}, []int64{o.Newest, o.Oldest, int64(o.Waiting)})
}
