package consul

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry"
	"github.com/pgmesh/pgmesh/registry/consul/catalog"
)

// told keeps what is wrong by the names of entries.
type told map[string]string

func (told) Replace([]*kinds.Resource)         {}
func (told) Apply([]kinds.Change)              {}
func (told) Secrets(string, []registry.Secret) {}
func (told) Holds() bool                       { return false }
func (told) Away(error)                        {}
func (t told) Bad(name string, err error) {
	if delete(t, name); err != nil {
		t[name] = err.Error()
	}
}

// A service is good again only when nothing is wrong with it in any datacenter, nor with all of them
// together.
func TestWhatIsWrongWithAServiceIsToldTogether(t *testing.T) {
	t.Parallel()
	says := told{}
	m := newMesh(&Registry{settings: &settings{name: "consul", into: "default", domain: "consul", hosts: hosts{short: true}}}, says)
	one, two := m.add("dc1"), m.add("dc2")
	web := []catalog.Instance{{ID: "web-1", Node: "n", Datacenter: "dc1", Address: "10.0.0.1", Weight: 1}}
	one.All(map[string][]catalog.Instance{"web": web})
	require.ErrorContains(t, errors.New(says["service web"]), "no instance has a port")

	two.Bad("web", errors.New("garbage"))
	require.Equal(t, errNoPort.Error()+"\ndatacenter dc2: garbage", says["service web"])

	mended := web[0]
	mended.Port = 80
	one.Changed(map[string][]catalog.Instance{"web": {mended}})
	require.Equal(t, "datacenter dc2: garbage", says["service web"])

	two.Bad("web", nil)
	require.Empty(t, says)
	require.Empty(t, m.wrong)
}
