package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/store"
)

// unsound lists what is wrong with resources that were not checked by the rules in force.
func (s session) unsound() []string {
	return collect[string](s, "SELECT format('%s: %s: %s', name, path, reason) FROM mesh.unsound ORDER BY 1")
}

func (s session) unchecked(from *store.Store) (names []string) {
	_, err := from.Snapshot(s.t.Context(), func(r *store.Resource) error {
		if r.Unchecked {
			names = append(names, r.Key.Name)
		}
		return nil
	})
	require.NoError(s.t, err)
	return names
}

func TestRowsThatCameAroundTheTriggersAreReported(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.put("written", "a")
	require.Empty(t, db.unchecked(s))

	db.exec(`ALTER TABLE mesh.resources DISABLE TRIGGER USER;
		INSERT INTO mesh.resources (api_group, kind, name, spec) VALUES
			('networking.istio.io', 'DestinationRule', 'right', '{"host": "a"}'),
			('networking.istio.io', 'DestinationRule', 'wrong', '{"host": "a", "trafficPolicy": {}}');
		ALTER TABLE mesh.resources ENABLE TRIGGER USER`)
	require.ElementsMatch(t, []string{"right", "wrong"}, db.unchecked(s))
	require.Equal(t, []string{"wrong: spec.trafficPolicy: sets nothing"}, db.unsound())

	before := db.newest()
	require.NoError(t, store.Migrate(t.Context(), url))
	require.Equal(t, []string{"wrong"}, db.unchecked(s))
	require.Equal(t, before, db.newest(), "to look at something changes nothing")

	db.exec(`UPDATE mesh.resources SET spec = '{"host": "b"}' WHERE name = 'wrong'`)
	require.Empty(t, db.unchecked(s))
	require.Empty(t, db.unsound())
}

func TestNewRulesAreAppliedToWhatIsStored(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.put("x", "a")
	db.put("y", "a")
	db.exec(`UPDATE mesh.kinds SET rules = rules + 1;
		UPDATE mesh.schema_fields SET max_items = 1 WHERE type = 'istio.networking.v1alpha3.VirtualService' AND name = 'hosts';
		UPDATE mesh.schema_types SET own_values = '1 == 0' WHERE type = 'istio.networking.v1alpha3.VirtualService'`)
	require.ElementsMatch(t, []string{"x", "y"}, db.unchecked(s))
	db.put("y", "b")

	require.NoError(t, store.Migrate(t.Context(), url))
	require.Empty(t, db.unchecked(s))
	require.Equal(t, "MS003", db.refused("UPDATE mesh.resources SET rules = 5").Code)
}
