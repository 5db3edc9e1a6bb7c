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

func put(k *kinds.Kind, namespace, name string, created int64) configstore.Change {
	r := &kinds.Resource{Kind: k, Namespace: namespace, Name: name, CreateTime: time.Unix(created, 0)}
	return configstore.Change{Key: r.Key(), Resource: r}
}

func remove(k *kinds.Kind, namespace, name string) configstore.Change {
	return configstore.Change{Key: kinds.Key{Kind: k, Namespace: namespace, Name: name}}
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
	s := configstore.New().Apply(configstore.Batch{Revision: 7, Changes: []configstore.Change{
		put(k, "b", "same", 2), put(k, "a", "same", 2), put(k, "z", "early", 1), put(k, "a", "before", 2),
	}})
	require.Equal(t, int64(7), s.Revision)
	require.Equal(t, []string{"z/early", "a/before", "a/same", "b/same"}, names(s, k))
	require.Equal(t, 4, s.Len(k))
}

func TestASnapshotKeepsWhatItWas(t *testing.T) {
	t.Parallel()
	k := kind(t, "VirtualService")
	store := configstore.New()
	before := store.Apply(configstore.Batch{Revision: 1, Changes: []configstore.Change{put(k, "a", "one", 1), put(k, "a", "two", 2)}})
	after := store.Apply(configstore.Batch{Revision: 2, Changes: []configstore.Change{remove(k, "a", "one"), put(k, "a", "three", 0)}})
	require.Equal(t, []string{"a/one", "a/two"}, names(before, k))
	require.Equal(t, []string{"a/three", "a/two"}, names(after, k))
	require.NotNil(t, before.Get(kinds.Key{Kind: k, Namespace: "a", Name: "one"}))
	require.Nil(t, after.Get(kinds.Key{Kind: k, Namespace: "a", Name: "one"}))
	require.Same(t, after, store.Snapshot())
}

func TestTheLastOfSeveralChangesToAKeyCounts(t *testing.T) {
	t.Parallel()
	k := kind(t, "VirtualService")
	s := configstore.New().Apply(configstore.Batch{Changes: []configstore.Change{
		put(k, "a", "one", 1), remove(k, "a", "one"), put(k, "a", "two", 2), put(k, "a", "two", 3),
	}})
	require.Equal(t, []string{"a/two"}, names(s, k))
	require.Equal(t, int64(3), s.Get(kinds.Key{Kind: k, Namespace: "a", Name: "two"}).CreateTime.Unix())
}

func TestUntouchedKindsAreTheSame(t *testing.T) {
	t.Parallel()
	touched, other := kind(t, "VirtualService"), kind(t, "ServiceEntry")
	store := configstore.New()
	before := store.Apply(configstore.Batch{Changes: []configstore.Change{put(touched, "a", "one", 1), put(other, "a", "one", 1)}})
	after := store.Apply(configstore.Batch{Changes: []configstore.Change{remove(touched, "a", "absent")}})
	require.True(t, after.Same(before, other))
	require.False(t, after.Same(before, touched))
	require.False(t, after.Same(nil, other))
}

func TestAKindWithoutResourcesIsEmpty(t *testing.T) {
	t.Parallel()
	k := kind(t, "Gateway")
	s := configstore.New().Snapshot()
	require.Empty(t, names(s, k))
	require.Nil(t, s.Get(kinds.Key{Kind: k, Namespace: "a", Name: "b"}))
}

// TestRandomBatchesGiveWhatAMapWouldHold compares long sequences of batches with the obvious implementation.
func TestRandomBatchesGiveWhatAMapWouldHold(t *testing.T) {
	t.Parallel()
	k := kind(t, "VirtualService")
	random := rand.New(rand.NewPCG(3, 4))
	store, model := configstore.New(), map[kinds.Key]*kinds.Resource{}
	for revision := range int64(500) {
		batch := configstore.Batch{Revision: revision}
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
		requireSame(t, model, after, k)
		requireDifference(t, before, after, k)
	}
}

// requireDifference holds what is told of two snapshots against what is in them.
func requireDifference(t *testing.T, before, after *configstore.Snapshot, k *kinds.Kind) {
	t.Helper()
	told := map[kinds.Key]bool{}
	for old, now := range after.Since(before, k) {
		require.NotSame(t, old, now)
		key := cmp.Or(now, old).Key()
		require.False(t, told[key], "told twice")
		require.Same(t, before.Get(key), old)
		require.Same(t, after.Get(key), now)
		told[key] = true
	}
	for _, s := range []*configstore.Snapshot{before, after} {
		for r := range s.Of(k) {
			require.Equal(t, before.Get(r.Key()) != after.Get(r.Key()), told[r.Key()])
		}
	}
}

func TestEverythingHasComeSinceNothing(t *testing.T) {
	t.Parallel()
	k := kind(t, "VirtualService")
	s := configstore.New().Apply(configstore.Batch{Changes: []configstore.Change{put(k, "a", "one", 1), put(k, "a", "two", 0)}})
	var come []string
	for before, after := range s.Since(nil, k) {
		require.Nil(t, before)
		come = append(come, after.Name)
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
