package source_test

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/discovery/source/sourcetest"
	"github.com/pgmesh/pgmesh/kinds"
)

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	sourcetest.Contract(t, func(t *testing.T) sourcetest.Subject {
		t.Helper()
		m := source.NewMemory()
		return sourcetest.Subject{Source: m, Put: putInto(t, m)}
	})
}

func TestMergedSourcesKeepTheContract(t *testing.T) {
	t.Parallel()
	sourcetest.Contract(t, func(t *testing.T) sourcetest.Subject {
		t.Helper()
		first, second := source.NewMemory(), source.NewMemory()
		first.Apply()
		return sourcetest.Subject{Source: source.Merge(slog.New(slog.DiscardHandler), prometheus.NewRegistry(), first, second), Put: putInto(t, second)}
	})
}

func putInto(t *testing.T, m *source.Memory) func(names ...string) {
	t.Helper()
	return func(names ...string) {
		var all []*kinds.Resource
		for _, name := range names {
			all = append(all, entry(t, name, name+".example"))
		}
		m.Replace(all...)
	}
}
