package mesh_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

func nameless(i int) string {
	return entry(fmt.Sprintf("s%d", i), "default", fmt.Sprintf("hosts: [s%d.example.com], %s", i, port80))
}

// allocated has the address of every service that has one.
func allocated(m *mesh.Mesh) map[string]string {
	out := map[string]string{}
	for _, s := range m.Services() {
		if len(s.Allocated) > 0 {
			out[s.Hostname] = s.Allocated[0]
		}
	}
	return out
}

func TestAllocatedAddressesAreUniqueAndValid(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 2000 {
		text.WriteString(nameless(i))
	}
	m := build(t, text.String())
	seen := map[string]bool{}
	for _, s := range m.Services() {
		require.Len(t, s.Allocated, 2)
		require.True(t, strings.HasPrefix(s.Allocated[0], "240.240."), s.Allocated[0])
		require.False(t, strings.HasSuffix(s.Allocated[0], ".0") || strings.HasSuffix(s.Allocated[0], ".255"), s.Allocated[0])
		require.True(t, strings.HasPrefix(s.Allocated[1], "2001:2::f0f0:"), s.Allocated[1])
		for _, a := range s.Allocated {
			require.False(t, seen[a], a)
			seen[a] = true
		}
	}
}

// TestAllocatedAddressesStay adds services to older ones, whose addresses must not change.
func TestAllocatedAddressesStay(t *testing.T) {
	t.Parallel()
	store := configstore.New()
	first := mesh.Build(applyAt(t, store, 1, 0, 2000), nil)
	second := mesh.Build(applyAt(t, store, 2, 2000, 4000), first)
	after := allocated(second)
	require.Len(t, after, 4000)
	for host, address := range allocated(first) {
		require.Equal(t, address, after[host], host)
	}
	require.Equal(t, after, allocated(mesh.Build(store.Snapshot().FromNothing(), nil)), "a discovery that starts now finds the same")
}

// applyAt creates services without addresses at one time.
func applyAt(t *testing.T, store *configstore.Store, seconds int64, from, to int) configstore.Step {
	t.Helper()
	batch := kinds.Batch{Revision: seconds}
	for i := from; i < to; i++ {
		documents, err := kinds.Parse("test.yaml", []byte(nameless(i)))
		require.NoError(t, err)
		r := documents[0].Resource
		r.CreateTime = time.Unix(seconds, 0)
		batch.Changes = append(batch.Changes, kinds.Change{Key: r.Key(), Resource: r})
	}
	return store.Apply(batch)
}

func TestTheOrderOfArrivalDoesNotDecideAddresses(t *testing.T) {
	t.Parallel()
	texts := make([]string, 500)
	for i := range texts {
		texts[i] = nameless(i)
	}
	want := allocated(build(t, strings.Join(texts, "")))
	random := rand.New(rand.NewPCG(1, 2))
	random.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	require.Equal(t, want, allocated(build(t, strings.Join(texts, ""))))
}

func TestAChosenAddressIsNotGivenOut(t *testing.T) {
	t.Parallel()
	free := allocated(build(t, nameless(1)))["s1.example.com"]
	chosen := entry("chosen", "default", "hosts: [chosen.example.com], addresses: ["+free+"], "+port80)
	other := allocated(build(t, nameless(1)+chosen))
	require.NotEqual(t, free, other["s1.example.com"])
	require.NotEmpty(t, other["s1.example.com"])
	require.NotContains(t, other, "chosen.example.com")
}

func TestAddressesAreForMachinesWhoseNamesTheMeshResolves(t *testing.T) {
	t.Parallel()
	m := build(t, entry("x", "default", "hosts: [istio.io], "+port80)+entry("y", "default", "hosts: [istio.io], ports: [{number: 443, name: tls, protocol: TLS}]"))
	p := sidecar("default", nil)
	for _, s := range m.Services() {
		require.Equal(t, []string{mesh.Unspecified}, s.AddressesFor(p))
	}
	p.DNSCapture = true
	for _, s := range m.Services() {
		require.Equal(t, []string{"240.240.91.120"}, s.AddressesFor(p), "entries for one host share it")
	}
	p.Addresses = []string{"fd00::1"}
	require.Equal(t, []string{"2001:2::f0f0:5b78"}, m.Services()[0].AddressesFor(p))
}
