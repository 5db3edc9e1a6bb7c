package resources_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
)

func TestAChangeWaitsForItsConfirmation(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	put := func(name string) resources.Applied {
		applied, err := s.Apply(t.Context(), resources.Apply{
			Author: "ada", Message: "careful", Confirm: 90 * time.Second, Upserts: []resources.Upsert{{Key: storetest.Key(t, name), Spec: storetest.VirtualService("a")}},
		})
		require.NoError(t, err)
		return applied
	}
	first, second := put("x"), put("y")

	waiting, err := s.Confirmations(t.Context(), []string{"waiting"}, 10)
	require.NoError(t, err)
	require.Len(t, waiting, 2)
	require.Equal(t, second.Revision, waiting[0].Revision)
	require.Equal(t, []any{"ada", "careful", 90 * time.Second, true}, []any{waiting[1].Author, waiting[1].Message, waiting[1].Within, waiting[1].EndedAt.IsZero()})
	require.Equal(t, first.Deadline, waiting[1].Deadline)

	_, err = s.Confirm(t.Context(), 0, "bob")
	var refused *store.RefusedError
	require.ErrorAs(t, err, &refused, "it is not clear which")
	confirmed, err := s.Confirm(t.Context(), second.Revision, "bob")
	require.NoError(t, err)
	require.Equal(t, second.Revision, confirmed)
	only, err := s.Confirm(t.Context(), 0, "bob")
	require.NoError(t, err)
	require.Equal(t, first.Revision, only)
	all, err := s.Confirmations(t.Context(), nil, 1)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.Equal(t, []string{"confirmed", "bob"}, []string{all[0].State, all[0].EndedBy})
}
