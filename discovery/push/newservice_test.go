package push_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/push"
)

// A new service that comes with its route costs its clusters, its endpoints and its virtual host,
// however many see it. No listener, no route configuration and nothing of another service is made
// again.
func TestANewServiceIsAllThatIsTranslated(t *testing.T) {
	t.Parallel()
	const services, proxies = 30, 6
	b := newBench()
	var config strings.Builder
	for i := range services {
		config.WriteString("---\n" + meshService(i, 2, 0) + "---\n" + meshRoute(i, 0))
	}
	b.apply(t, config.String())
	for i := range proxies {
		s, err := b.Open(t.Context(), newest(node(fmt.Sprintf("10.0.%d.1", i), fmt.Sprint("team-", i%3))), true)
		require.NoError(t, err)
		t.Cleanup(s.Close)
	}
	for i := range 3 {
		b.apply(t, meshService(services+i, 2, 0)+"---\n"+meshRoute(services+i, 0))
		want := map[string]int{push.ClusterType: 1, push.EndpointType: 1, push.VirtualHostType: 3}
		require.Equal(t, want, b.translated(), "three shared views, each with virtual hosts of its own")
	}
	b.apply(t, meshRoute(services, 1))
	require.Equal(t, map[string]int{push.VirtualHostType: 3}, b.translated(), "a rule that came later changes alone, too")
}

// translated counts the resources that the last push made of each type, without the table of names,
// which is one resource.
func (b *bench) translated() map[string]int {
	_, pushes := b.Pushes()
	work := map[string]int{}
	for _, w := range pushes[0].Work {
		if w.Resources > 0 && w.TypeURL != push.NameTableType {
			work[w.TypeURL] = w.Resources
		}
	}
	return work
}
