package mesh_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
)

// shown is an entry that namespace default sees, hidden one that it does not.
func shown(name, address string) string {
	return entry(name, "default", "hosts: ["+name+".example.com], "+port80+", endpoints: [{address: "+address+"}]")
}

func hidden(name string) string {
	return entry(name, "other", "hosts: ["+name+".example.com], exportTo: ['.'], "+port80)
}

func TestScopesSurviveMeshesThatNobodyAsks(t *testing.T) {
	t.Parallel()
	store, p := configstore.New(), sidecar("default", nil)
	first := mesh.Build(apply(t, store, shown("a", "10.0.0.1")+shown("b", "10.0.0.2")), nil)
	scope := first.Scope(p)
	last := first
	for i := range 5 {
		last = mesh.Build(apply(t, store, hidden(fmt.Sprint("x", i))), last)
	}
	require.Same(t, scope, last.Scope(p))
	last = mesh.Build(apply(t, store, shown("a", "10.0.0.3")), last)
	last = mesh.Build(apply(t, store, hidden("y")), last)
	after := last.Scope(p)
	require.NotSame(t, scope, after)
	require.Same(t, scope.Service("b.example.com"), after.Service("b.example.com"))
	require.Equal(t, "10.0.0.3", after.Service("a.example.com").Endpoints[0].Address)
	require.Same(t, scope, first.Scope(p), "the older mesh says what it said")
}

func TestScopesThatShowTheSameShareTheirLists(t *testing.T) {
	t.Parallel()
	store, one, two := configstore.New(), sidecar("one", nil), sidecar("two", nil)
	m := mesh.Build(apply(t, store, shown("a", "10.0.0.1")+shown("b", "10.0.0.2")), nil)
	for i := range 3 {
		require.Same(t, &m.Scope(one).Services[0], &m.Scope(two).Services[0])
		require.Same(t, &m.Scope(one).Egress[0].Services[0], &m.Scope(two).Egress[0].Services[0])
		m = mesh.Build(apply(t, store, shown("a", fmt.Sprint("10.0.1.", i))), m)
	}
}

func TestVariantsOfAServiceAreShared(t *testing.T) {
	t.Parallel()
	m := build(t, entry("a", "default", "hosts: [x.example.com], "+port80)+
		entry("b", "default", "hosts: [x.example.com], ports: [{number: 81, name: more, protocol: TCP}]"))
	require.Len(t, m.Scope(sidecar("one", nil)).Services[0].Ports, 2)
	require.Same(t, m.Scope(sidecar("one", nil)).Services[0], m.Scope(sidecar("two", nil)).Services[0])
}
