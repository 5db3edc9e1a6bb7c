package translate_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// TestOneClassOneTranslation draws random proxies: those of one class must be given the same bytes.
func TestOneClassOneTranslation(t *testing.T) {
	t.Parallel()
	batch := kinds.Batch{Revision: 1}
	for _, file := range inputs(t) {
		for _, r := range readInput(t, file).resources {
			batch.Changes = append(batch.Changes, kinds.Change{Key: r.Key(), Resource: r})
		}
	}
	m := mesh.Build(configstore.New().Apply(batch), nil)
	random := rand.New(rand.NewPCG(5, 6))
	seen := map[mesh.Class]map[string][][]byte{}
	for i := range 300 {
		p := randomProxy(random, i)
		got := encode(t, translated(m, p))
		if want, known := seen[m.Class(p)]; known {
			require.Equal(t, want, got)
		}
		seen[m.Class(p)] = got
	}
	require.Less(t, len(seen), 250, "hardly any proxies share a class: the test compares nothing")
}

func randomProxy(random *rand.Rand, i int) *mesh.Proxy {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	return &mesh.Proxy{
		Type: mesh.ProxyType(pick("sidecar", "sidecar", "router")), ID: strconv.Itoa(i),
		Addresses: []string{pick("10.0.0.1", "10.0.0.2", fmt.Sprint("10.9.0.", i%256))},
		Namespace: pick("default", "other"), Domain: "default.svc.cluster.local",
		Labels:       map[string]string{"app": pick("client", "other"), "machine": strconv.Itoa(i)},
		Interception: mesh.Interception(pick("REDIRECT", "NONE")),
	}
}
