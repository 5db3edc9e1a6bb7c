package configstore_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
)

func kind(t *testing.T, name string) *kinds.Kind {
	t.Helper()
	k, ok := kinds.Lookup("networking.istio.io", name)
	require.True(t, ok)
	return k
}

func put(k *kinds.Kind, namespace, name string, created int64) kinds.Change {
	r := &kinds.Resource{Kind: k, Namespace: namespace, Name: name, CreateTime: time.Unix(created, 0)}
	return kinds.Change{Key: r.Key(), Resource: r}
}

func remove(k *kinds.Kind, namespace, name string) kinds.Change {
	return kinds.Change{Key: kinds.Key{Kind: k, Namespace: namespace, Name: name}}
}

func names(s *configstore.Snapshot, k *kinds.Kind) []string {
	var out []string
	for r := range s.Of(k) {
		out = append(out, r.Namespace+"/"+r.Name)
	}
	return out
}

func TestResourcesComeOldestFirstThenByNameThenByNamespace(t *testing.T) {
	t.Parallel()
	k := kind(t, "VirtualService")
	s := configstore.New().Apply(kinds.Batch{Revision: 7, Changes: []kinds.Change{
		put(k, "b", "same", 2), put(k, "a", "same", 2), put(k, "z", "early", 1), put(k, "a", "before", 2),
	}})
	require.Equal(t, int64(7), s.Revision)
	require.Equal(t, []string{"z/early", "a/before", "a/same", "b/same"}, names(s.Snapshot, k))
	require.Equal(t, 4, s.Len(k))
}

func TestASnapshotKeepsWhatItWas(t *testing.T) {
	t.Parallel()
	k := kind(t, "VirtualService")
	store := configstore.New()
	before := store.Apply(kinds.Batch{Revision: 1, Changes: []kinds.Change{put(k, "a", "one", 1), put(k, "a", "two", 2)}})
	after := store.Apply(kinds.Batch{Revision: 2, Changes: []kinds.Change{remove(k, "a", "one"), put(k, "a", "three", 0)}})
	require.Equal(t, []string{"a/one", "a/two"}, names(before.Snapshot, k))
	require.Equal(t, []string{"a/three", "a/two"}, names(after.Snapshot, k))
	require.NotNil(t, before.Get(kinds.Key{Kind: k, Namespace: "a", Name: "one"}))
	require.Nil(t, after.Get(kinds.Key{Kind: k, Namespace: "a", Name: "one"}))
	require.Same(t, after.Snapshot, store.Snapshot())
}

func TestTheLastOfSeveralChangesToAKeyCounts(t *testing.T) {
	t.Parallel()
	k := kind(t, "VirtualService")
	s := configstore.New().Apply(kinds.Batch{Changes: []kinds.Change{
		put(k, "a", "one", 1), remove(k, "a", "one"), put(k, "a", "two", 2), put(k, "a", "two", 3),
	}})
	require.Equal(t, []string{"a/two"}, names(s.Snapshot, k))
	require.Equal(t, int64(3), s.Get(kinds.Key{Kind: k, Namespace: "a", Name: "two"}).CreateTime.Unix())
}

func TestUntouchedKindsAreTheSame(t *testing.T) {
	t.Parallel()
	touched, other := kind(t, "VirtualService"), kind(t, "ServiceEntry")
	store := configstore.New()
	before := store.Apply(kinds.Batch{Changes: []kinds.Change{put(touched, "a", "one", 1), put(other, "a", "one", 1)}})
	after := store.Apply(kinds.Batch{Changes: []kinds.Change{remove(touched, "a", "absent")}})
	require.False(t, after.Touches(other, touched), "what is not there cannot go")
	require.True(t, after.Follows(before.Snapshot))
	after = store.Apply(kinds.Batch{Changes: []kinds.Change{remove(touched, "a", "one")}})
	require.False(t, after.Touches(other))
	require.True(t, after.Touches(other, touched))
	require.False(t, after.Follows(before.Snapshot))
}

func TestAKindWithoutResourcesIsEmpty(t *testing.T) {
	t.Parallel()
	k := kind(t, "Gateway")
	s := configstore.New().Snapshot()
	require.Empty(t, names(s, k))
	require.Nil(t, s.Get(kinds.Key{Kind: k, Namespace: "a", Name: "b"}))
}

// TestRandomBatchesGiveWhatAMapWouldHold compares long sequences of batches with the obvious
// implementation.
func TestRandomBatchesGiveWhatAMapWouldHold(t *testing.T) {
	t.Parallel()
	k := kind(t, "VirtualService")
	random := rand.New(rand.NewPCG(3, 4))
	store, model := configstore.New(), map[kinds.Key]*kinds.Resource{}
	for revision := range int64(500) {
		batch := kinds.Batch{Revision: revision}
		for range random.IntN(6) {
			name, namespace := strconv.Itoa(random.IntN(20)), strconv.Itoa(random.IntN(3))
			change := remove(k, namespace, name)
			if random.IntN(3) > 0 {
				change = put(k, namespace, name, random.Int64N(4))
			}
			batch.Changes = append(batch.Changes, change)
			if model[change.Key] = change.Resource; change.Resource == nil {
				delete(model, change.Key)
			}
		}
		before := store.Snapshot()
		after := store.Apply(batch)
		requireSame(t, model, after.Snapshot, k)
		requireEdits(t, before, after, k)
	}
}

// requireEdits compares the edits of a step with the snapshots before and after it.
func requireEdits(t *testing.T, before *configstore.Snapshot, after configstore.Step, k *kinds.Kind) {
	t.Helper()
	edited := map[kinds.Key]bool{}
	for _, e := range after.Edits(k) {
		require.NotSame(t, e.Before, e.After)
		key := cmp.Or(e.After, e.Before).Key()
		require.False(t, edited[key], "it is edited twice")
		require.Same(t, before.Get(key), e.Before)
		require.Same(t, after.Get(key), e.After)
		edited[key] = true
	}
	require.Equal(t, len(edited) > 0, after.Touches(k))
	for _, s := range []*configstore.Snapshot{before, after.Snapshot} {
		for r := range s.Of(k) {
			require.Equal(t, before.Get(r.Key()) != after.Get(r.Key()), edited[r.Key()])
		}
	}
}

func TestEverythingHasComeSinceNothing(t *testing.T) {
	t.Parallel()
	k := kind(t, "VirtualService")
	s := configstore.New().Apply(kinds.Batch{Changes: []kinds.Change{put(k, "a", "one", 1), put(k, "a", "two", 0)}})
	var come []string
	for _, e := range s.FromNothing().Edits(k) {
		require.Nil(t, e.Before)
		come = append(come, e.After.Name)
	}
	require.Equal(t, []string{"one", "two"}, come)
}

func requireSame(t *testing.T, model map[kinds.Key]*kinds.Resource, s *configstore.Snapshot, k *kinds.Kind) {
	t.Helper()
	got := slices.Collect(s.Of(k))
	require.Len(t, got, len(model))
	for _, r := range got {
		require.Same(t, model[r.Key()], r)
		require.Same(t, r, s.Get(r.Key()))
	}
	require.True(t, slices.IsSortedFunc(got, func(a, b *kinds.Resource) int { return a.CreateTime.Compare(b.CreateTime) }))
}
