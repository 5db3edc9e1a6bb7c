package feed_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store"
)

func TestFollowReturnsTheChangesOfATransaction(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	batches := storetest.Follow(t, s, 0)
	db := storetest.Connect(t, url)

	db.Exec("SET mesh.message = 'first'; SET application_name = 'a test'")
	db.Put("reviews", "one")
	b := <-batches
	require.Equal(t, store.Revision(1), b.Revision)
	require.Equal(t, "postgres", b.Author)
	require.Equal(t, "a test", b.Application)
	require.Equal(t, "first", b.Message)
	require.Len(t, b.Changes, 1)
	require.Equal(t, storetest.Key(t, "reviews"), b.Changes[0].Key)
	require.Nil(t, b.Changes[0].Before)
	require.JSONEq(t, string(storetest.VirtualService("one")), string(b.Changes[0].After.Spec))

	db.Exec("BEGIN")
	db.Put("reviews", "two")
	db.Put("reviews", "three")
	db.Put("ratings", "four")
	db.Exec("COMMIT")
	b = <-batches
	require.Equal(t, store.Revision(2), b.Revision)
	require.Len(t, b.Changes, 2)
	require.Equal(t, storetest.Key(t, "ratings"), b.Changes[0].Key)
	reviews := b.Changes[1]
	require.JSONEq(t, string(storetest.VirtualService("one")), string(reviews.Before.Spec))
	require.JSONEq(t, string(storetest.VirtualService("three")), string(reviews.After.Spec))
	require.Equal(t, store.Revision(1), reviews.Before.Revision)
	require.Equal(t, store.Revision(2), reviews.After.Revision)
	require.Equal(t, int64(2), reviews.After.Generation)

	db.Exec("DELETE FROM mesh.resources WHERE name = 'reviews'")
	b = <-batches
	require.Nil(t, b.Changes[0].After)
	require.Equal(t, reviews.After, b.Changes[0].Before)
}

// What a follower reads does not make its connection younger.
func TestStatusHasTheTimeOfConnection(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	batches := storetest.Follow(t, s, 0)
	db := storetest.Connect(t, url)
	db.Put("x", "a")
	<-batches
	since := s.Status().Since
	for _, host := range []string{"b", "c"} { // the second wake-up comes after the first was dealt with
		db.Put("x", host)
		<-batches
	}
	require.Equal(t, since, s.Status().Since)
	require.True(t, s.Status().Connected)
}
