package source_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/discovery/source/sourcetest"
	"github.com/pgmesh/pgmesh/kinds"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// follower keeps what a source hands on.
type follower struct {
	t       *testing.T
	batches chan kinds.Batch
	state   map[kinds.Key]*kinds.Resource
}

// follow runs a source until the test ends.
func follow(t *testing.T, s source.Source) *follower {
	t.Helper()
	f := &follower{t: t, batches: make(chan kinds.Batch, 100), state: map[kinds.Key]*kinds.Resource{}}
	sourcetest.Run(t, s, func(b kinds.Batch) error {
		f.batches <- b
		b.TellInForce()
		return nil
	})
	return f
}

// next waits for a batch and applies it.
func (f *follower) next() kinds.Batch {
	f.t.Helper()
	b := <-f.batches
	for _, c := range b.Changes {
		if c.Resource == nil {
			require.Contains(f.t, f.state, c.Key, "a removal of what there was not")
			delete(f.state, c.Key)
		} else {
			f.state[c.Key] = c.Resource
		}
	}
	return b
}

func entry(t *testing.T, name, host string) *kinds.Resource {
	t.Helper()
	kind, ok := kinds.Lookup("networking.istio.io", "ServiceEntry")
	require.True(t, ok)
	return &kinds.Resource{Kind: kind, Namespace: "default", Name: name, Spec: kinds.SpecOf(&networking.ServiceEntry{Hosts: []string{host}})}
}

func change(r *kinds.Resource) kinds.Change {
	return kinds.Change{Key: r.Key(), Resource: r}
}

func TestMemoryHandsOnWhatAProgramGives(t *testing.T) {
	t.Parallel()
	m := source.NewMemory()
	_, err := m.Ready()
	require.ErrorContains(t, err, "given no configuration yet")
	a, b := entry(t, "a", "a.example"), entry(t, "b", "b.example")
	m.Apply(change(a))
	f := follow(t, m)
	require.Equal(t, int64(1), f.next().Revision)
	require.Equal(t, map[kinds.Key]*kinds.Resource{a.Key(): a}, f.state)

	m.Apply(change(b), kinds.Change{Key: a.Key()})
	require.Len(t, f.next().Changes, 2)
	require.Equal(t, map[kinds.Key]*kinds.Resource{b.Key(): b}, f.state)
	m.Replace(a)
	f.next()
	require.Equal(t, map[kinds.Key]*kinds.Resource{a.Key(): a}, f.state)
	_, err = m.Ready()
	require.NoError(t, err)
}

func TestMemoryEndsWithTheErrorOfItsUser(t *testing.T) {
	t.Parallel()
	m, broken := source.NewMemory(), errors.New("broken")
	m.Apply()
	require.ErrorIs(t, m.Run(t.Context(), func(kinds.Batch) error { return broken }), broken)
	m.Apply(change(entry(t, "a", "a.example"))) // hands nothing to a follower that has ended
}

// A program that has made a change may connect a proxy, which must not be served what was there
// before.
func TestMemoryReturnsOnceAChangeIsInForce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m, batches := source.NewMemory(), make(chan kinds.Batch, 10)
		m.Apply(change(entry(t, "a", "a.example"))) // for nobody yet
		sourcetest.Run(t, m, func(b kinds.Batch) error { batches <- b; return nil })
		(<-batches).TellInForce()
		for _, act := range []func(){
			func() { m.Apply(change(entry(t, "b", "b.example"))) },
			func() { m.Replace(entry(t, "c", "c.example")) },
		} {
			returned := false
			go func() { act(); returned = true }()
			synctest.Wait()
			require.False(t, returned, "the batch waits for its push")
			(<-batches).TellInForce()
			synctest.Wait()
			require.True(t, returned)
		}
		go m.Apply() // returns when the source ends
		synctest.Wait()
	})
}

func TestMergedSources(t *testing.T) {
	t.Parallel()
	first, second := source.NewMemory(), source.NewMemory()
	metrics := prometheus.NewRegistry()
	merged := source.Merge(slog.New(slog.DiscardHandler), metrics, first, second)
	f := follow(t, merged)
	ours, theirs, more := entry(t, "a", "ours.example"), entry(t, "a", "theirs.example"), entry(t, "b", "b.example")

	second.Apply(change(theirs), change(more))
	_, err := merged.Ready()
	require.Error(t, err, "half of a mesh is not handed on")
	first.Apply()
	b := f.next()
	require.Equal(t, int64(1), b.Revision)
	require.Equal(t, map[kinds.Key]*kinds.Resource{theirs.Key(): theirs, more.Key(): more}, f.state)
	_, err = merged.Ready()
	require.NoError(t, err)

	first.Apply(change(ours))
	require.Equal(t, int64(2), f.next().Revision, "revisions are those of the first")
	require.Equal(t, ours, f.state[ours.Key()], "the first source counts most")
	require.Equal(t, []kinds.Key{ours.Key()}, merged.Shadowed())
	require.Equal(t, 1, gauge(t, metrics, "pgmesh_discovery_shadowed_resources"))

	second.Apply(change(entry(t, "a", "changed.example")))
	require.Empty(t, f.next().Changes, "a change of what is not in force")
	first.Apply(kinds.Change{Key: ours.Key()})
	f.next()
	require.Equal(t, []string{"changed.example"}, f.state[ours.Key()].Spec.Message().(*networking.ServiceEntry).GetHosts())
	require.Empty(t, merged.Shadowed())
	second.Apply(kinds.Change{Key: ours.Key()})
	f.next()
	require.Equal(t, map[kinds.Key]*kinds.Resource{more.Key(): more}, f.state)
}

// scripted hands on batches as they are, like a source that knows commit times.
type scripted chan kinds.Batch

func (scripted) Name() string           { return "scripted" }
func (scripted) Ready() (string, error) { return "", nil }

func (s scripted) Run(ctx context.Context, apply func(kinds.Batch) error) error {
	for {
		select {
		case b := <-s:
			if err := apply(b); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestMergedSourcesKeepTheTimeOfCommit(t *testing.T) {
	t.Parallel()
	first, second, third := make(scripted), make(scripted), make(scripted)
	f := follow(t, source.Merge(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), first, second, third))
	at := func(second int64) time.Time { return time.Unix(second, 0) }

	second <- kinds.Batch{Committed: at(20), Changes: []kinds.Change{change(entry(t, "b", "b.example"))}}
	waits := make(chan struct{})
	second <- kinds.Batch{Committed: at(30), InForce: []func(){func() { close(waits) }}}
	<-waits // or it would come after the batches of the others
	first <- kinds.Batch{Revision: 7, Committed: at(40)}
	third <- kinds.Batch{} // files do not tell
	require.Equal(t, at(20), f.next().Committed, "the oldest of what has waited")

	second <- kinds.Batch{Committed: at(50), Changes: []kinds.Change{change(entry(t, "c", "c.example"))}}
	b := f.next()
	require.Equal(t, at(50), b.Committed, "whichever source it is of")
	require.Equal(t, int64(7), b.Revision)
	first <- kinds.Batch{Revision: 8, Committed: at(60)}
	require.Equal(t, at(60), f.next().Committed)
	third <- kinds.Batch{}
	require.Zero(t, f.next().Committed, "where the source does not tell there is none")
}

// A batch is in force once it is pushed. While nothing is served that is older, it need not wait for
// sources that have given nothing.
func TestMergedSourcesTellWhatIsInForce(t *testing.T) {
	t.Parallel()
	first, second := make(scripted), make(scripted)
	merged, batches := source.Merge(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), first, second), make(chan kinds.Batch, 10)
	sourcetest.Run(t, merged, func(b kinds.Batch) error { batches <- b; return nil })
	told := make(chan string, 10)
	tells := func(what string, r *kinds.Resource) kinds.Batch {
		return kinds.Batch{Changes: []kinds.Change{change(r)}, InForce: []func(){func() { told <- what }}}
	}
	second <- tells("the one that comes first", entry(t, "a", "a.example"))
	require.Equal(t, "the one that comes first", <-told)
	for _, from := range []scripted{first, second} {
		from <- tells("a later one", entry(t, "b", "b.example"))
		b := <-batches
		require.Empty(t, told)
		b.TellInForce()
		require.Equal(t, "a later one", <-told)
	}
}

func gauge(t *testing.T, from prometheus.Gatherer, name string) int {
	t.Helper()
	families, err := from.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return int(f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}
