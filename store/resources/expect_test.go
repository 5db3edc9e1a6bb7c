package resources_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
)

func TestAChangeIsMadeOnlyToWhatItExpects(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	db.Put("gone", "a")
	db.Exec("DELETE FROM mesh.resources WHERE name = 'gone'")
	apply := func(expected ...resources.Expected) error {
		_, err := s.Apply(t.Context(), resources.Apply{
			Upserts: []resources.Upsert{{Key: storetest.Key(t, "x"), Spec: storetest.VirtualService("b")}, {Key: storetest.Key(t, "new"), Spec: storetest.VirtualService("b")}}, Expected: expected, DryRun: true,
		})
		return err
	}

	require.NoError(t, apply(resources.Expected{Key: storetest.Key(t, "x"), Revision: 1}, resources.Expected{Key: storetest.Key(t, "new"), Revision: 0}, resources.Expected{Key: storetest.Key(t, "other"), Revision: 0}))
	for reason, expected := range map[string]resources.Expected{
		"VirtualService default/x: is at revision 1":                {Key: storetest.Key(t, "x"), Revision: 7},
		"VirtualService default/x: exists, since revision 1":        {Key: storetest.Key(t, "x"), Revision: 0},
		"VirtualService default/gone: was deleted by revision 3":    {Key: storetest.Key(t, "gone"), Revision: 2},
		"VirtualService default/other: there is no such resource; ": {Key: storetest.Key(t, "other"), Revision: 1},
	} {
		err := apply(expected)
		require.ErrorIs(t, err, resources.ErrChanged)
		require.ErrorContains(t, err, reason)
	}
	require.ErrorContains(t, apply(resources.Expected{Key: storetest.Key(t, "x"), Revision: 7}, resources.Expected{Key: storetest.Key(t, "other"), Revision: 7}), "other")
	require.Equal(t, store.Revision(3), storetest.Value[int64](db, "SELECT mesh.newest_revision()"))
}

// Two who have read the same cannot both change it, whoever waits for whom.
func TestOfTwoWhoExpectTheSameOneSucceeds(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	storetest.Connect(t, url).Put("x", "a")
	for name, expected := range map[string]store.Revision{"x": 1, "new": 0} {
		key, results := storetest.Key(t, name), make(chan error, 8)
		for i := range cap(results) {
			go func() {
				_, err := s.Apply(t.Context(), resources.Apply{
					Upserts:  []resources.Upsert{{Key: key, Spec: storetest.VirtualService(string(rune('b' + i)))}},
					Expected: []resources.Expected{{Key: key, Revision: expected}},
				})
				results <- err
			}()
		}
		succeeded := 0
		for range cap(results) {
			err := <-results
			if err == nil {
				succeeded++
				continue
			}
			require.True(t, errors.Is(err, resources.ErrChanged) || errors.Is(err, store.ErrConflict), "%v", err)
		}
		require.Equal(t, 1, succeeded, name)
	}
}
