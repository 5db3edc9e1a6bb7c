package wasm

import (
	"cmp"
	"slices"

	"github.com/pgmesh/pgmesh/mesh-agent/status"
)

// Report says for the status of the agent which modules there are, and which cannot be had.
func (m *Modules) Report() status.Wasm {
	out := status.Wasm{Failing: m.failing()}
	for _, one := range m.kept.List() {
		out.Modules = append(out.Modules, status.Module{Digest: one.Digest, From: one.From, Bytes: one.Size, Since: one.Fetched})
	}
	slices.SortFunc(out.Modules, func(a, b status.Module) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Digest, b.Digest))
	})
	return out
}

// mostPlugins is how many plugins the report names that wait for one module.
const mostPlugins = 10

func (m *Modules) failing() (out []status.Missing) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.loads {
		if l.failure == "" {
			continue
		}
		one := status.Missing{From: l.from(), Reason: l.failure}
		for w := range l.watches {
			one.Plugins = append(one.Plugins, w.plugin.Name)
		}
		slices.Sort(one.Plugins)
		one.Plugins = one.Plugins[:min(len(one.Plugins), mostPlugins)]
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b status.Missing) int { return cmp.Compare(a.From, b.From) })
	return out
}
