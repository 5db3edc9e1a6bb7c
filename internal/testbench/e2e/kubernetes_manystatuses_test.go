package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

const manyRoutes = 1000

// longestStatuses bounds the wait for all of them. Only something broken, or a machine that does much else, reaches it.
const longestStatuses = 4 * poll.Longest

// betweenLists lies between two looks at all of them, each of which costs the API server as much as some writes.
const betweenLists = 50 * time.Millisecond

// Whoever writes many routes into a cluster sees soon of each of them that real proxies run it. What
// would be outdated at once is not written, so each costs the cluster about one write.
func TestManyRoutesOfKubernetesHaveTheirStatusSoon(t *testing.T) {
	c := kubetest.Start(t)
	c.InstallIstio()
	m := meshOfCluster(t, c, netns.New(t), "status=true")
	c.Namespace(m.namespace)
	c.ApplyService(kubetest.Service{Namespace: m.namespace, Name: "web", Port: 80})
	list := "/apis/networking.istio.io/v1/namespaces/" + m.namespace + "/virtualservices"
	routes := make([]kubetest.Creation, manyRoutes)
	paths := make([]string, manyRoutes)
	for i := range routes {
		name := fmt.Sprint("web-", i)
		routes[i] = kubetest.Creation{Path: list, Object: leading(name, name+".example.com", "web", name)}
		paths[i] = list + "/" + name
	}

	begun := time.Now()
	c.Create(routes)
	made := time.Now()
	programmed(t, c, list)
	all := time.Now()
	metrics, err := scrape(t.Context(), m.MCPServer)
	require.NoError(t, err)
	writes := metrics[`pgmesh_mcp_server_origin_status_writes_total{registry="kubernetes",result="done"}`]
	t.Logf("%d routes were made in %s; all had their status %s after that, in %.0f writes", manyRoutes, made.Sub(begun), all.Sub(made), writes)
	require.LessOrEqual(t, writes, 1.5*manyRoutes)

	begun = time.Now()
	c.MergeStatuses(paths, kubetest.Object{"conditions": []kubetest.Object{{"type": "Theirs", "status": "True", "reason": "Theirs", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}}})
	t.Logf("floor: a client that does nothing else writes as many statuses in %s", time.Since(begun))
}

// programmed waits until all objects of a list say that proxies run them as they are.
func programmed(t *testing.T, c *kubetest.Cluster, list string) {
	t.Helper()
	poll.Within(t, longestStatuses, func(ctx context.Context) error {
		var all struct{ Items []json.RawMessage }
		if err := json.Unmarshal(c.Get(list), &all); err != nil {
			return err
		}
		says := map[string]int{}
		for _, object := range all.Items {
			conditions, _ := shown(object)
			says[conditions["Programmed"]]++
		}
		if says["True Programmed 1 of 1 proxies run it"] < len(all.Items) {
			wait.For(ctx, betweenLists)
			return fmt.Errorf("they say %v", says)
		}
		return nil
	})
}
