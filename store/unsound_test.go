package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/migration"
)

// unsound lists what is wrong with resources that were not checked by the rules in force.
func (s session) unsound() []string {
	return collect[string](s, "SELECT format('%s: %s: %s', name, path, reason) FROM mesh.unsound ORDER BY 1")
}

func (s session) unchecked(from *store.Store) (names []string) {
	_, err := storetest.Feed(s.T, from).Snapshot(s.T.Context(), func(r *store.Resource) error {
		if r.Unchecked {
			names = append(names, r.Key.Name)
		}
		return nil
	})
	require.NoError(s.T, err)
	return names
}

func TestRowsThatCameAroundTheTriggersAreReported(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.Put("written", "a")
	require.Empty(t, db.unchecked(s))

	db.Exec(`ALTER TABLE mesh.resources DISABLE TRIGGER USER;
		INSERT INTO mesh.resources (api_group, kind, name, spec) VALUES
			('networking.istio.io', 'DestinationRule', 'right', '{"host": "a"}'),
			('networking.istio.io', 'DestinationRule', 'wrong', '{"host": "a", "trafficPolicy": {}}');
		ALTER TABLE mesh.resources ENABLE TRIGGER USER`)
	require.ElementsMatch(t, []string{"right", "wrong"}, db.unchecked(s))
	require.Equal(t, []string{"wrong: spec.trafficPolicy: sets nothing"}, db.unsound())

	before := db.Newest()
	require.NoError(t, migration.Up(t.Context(), url))
	require.Equal(t, []string{"wrong"}, db.unchecked(s))
	require.Equal(t, before, db.Newest(), "to look at something changes nothing")

	db.Exec(`UPDATE mesh.resources SET spec = '{"host": "b"}' WHERE name = 'wrong'`)
	require.Empty(t, db.unchecked(s))
	require.Empty(t, db.unsound())
}

func TestNewRulesAreAppliedToWhatIsStored(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.Put("x", "a")
	db.Put("y", "a")
	db.Exec(`SELECT mesh_internal.begin_own_work('registry'); UPDATE mesh.kinds SET rules = rules + 1;
		UPDATE mesh.schema_fields SET max_items = 1 WHERE type = 'istio.networking.v1alpha3.VirtualService' AND name = 'hosts';
		UPDATE mesh_internal.schema_types SET own_values = '1 == 0' WHERE type = 'istio.networking.v1alpha3.VirtualService'`)
	require.ElementsMatch(t, []string{"x", "y"}, db.unchecked(s))
	db.Put("y", "b")

	require.NoError(t, migration.Up(t.Context(), url))
	require.Empty(t, db.unchecked(s))
	require.Equal(t, "MS003", db.Refused("UPDATE mesh.resources SET rules = 5").Code)
}
