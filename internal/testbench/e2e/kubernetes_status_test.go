package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// leading is a VirtualService of a cluster that leads from a host to another.
func leading(name, host, to, by string) kubetest.Object {
	return kubetest.Object{
		"apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": kubetest.Object{"name": name},
		"spec": kubetest.Object{"hosts": []string{host}, "http": []kubetest.Object{{
			"headers": kubetest.Object{"response": kubetest.Object{"set": kubetest.Object{"by": by}}},
			"route":   []kubetest.Object{{"destination": kubetest.Object{"host": to}}},
		}}},
	}
}

// shown are the conditions of an object, with the generation that they are about.
func shown(object []byte) (conditions map[string]string, generation int64) {
	var o struct {
		Metadata struct{ Generation int64 }
		Status   struct {
			Conditions []struct {
				Type, Status, Reason, Message string
				ObservedGeneration            int64
			}
		}
	}
	conditions = map[string]string{}
	if json.Unmarshal(object, &o) != nil {
		return conditions, 0
	}
	for _, c := range o.Status.Conditions {
		if c.ObservedGeneration == o.Metadata.Generation {
			conditions[c.Type] = strings.TrimSpace(fmt.Sprintf("%s %s %s", c.Status, c.Reason, c.Message))
		}
	}
	return conditions, o.Metadata.Generation
}

// Whoever changes configuration in a cluster sees in its status there when real proxies run it, and
// what is wrong with it.
func TestStatusesOfKubernetesTellWhatProxiesRun(t *testing.T) {
	c := kubetest.Start(t)
	c.InstallIstio()
	m := meshOfCluster(t, c, netns.New(t), "status=true")
	c.Namespace(m.namespace)
	c.ApplyService(kubetest.Service{Namespace: m.namespace, Name: "web", Port: 80})
	c.ApplySlice(kubetest.Slice{Namespace: m.namespace, Name: "web-1", Service: "web", Port: 8080, Endpoints: []kubetest.Endpoint{{Address: "10.210.0.1"}}})
	path := func(name string) string {
		return "/apis/networking.istio.io/v1/namespaces/" + m.namespace + "/virtualservices/" + name
	}
	says := func(name, condition, text string) {
		t.Helper()
		poll.Eventually(t, func(context.Context) error {
			if all, generation := shown(c.Get(path(name))); !strings.HasPrefix(all[condition], text) {
				return fmt.Errorf("of generation %d it says %q", generation, all)
			}
			return nil
		})
	}
	c.Apply(path("web"), leading("web", "web", "web", "0"))
	says("web", "Programmed", "True Programmed 1 of 1 proxies run it")
	says("web", "Accepted", "True")
	says("web", "ResolvedRefs", "True")
	c.Apply(path("lost"), leading("lost", "lost.example.com", "nowhere.example.com", "0"))
	says("lost", "ResolvedRefs", "False UnknownHost")
	c.Apply(path("lost"), leading("lost", "not a host!", "web", "0"))
	says("lost", "Accepted", "False Invalid")

	var took []time.Duration
	for i := range changesTimed {
		begun := time.Now()
		c.Apply(path("web"), leading("web", "web", "web", fmt.Sprint(i+1)))
		says("web", "Programmed", "True Programmed 1 of 1 proxies run it")
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	t.Logf("from a change in the cluster until its status says that it is programmed: median %s, most %s", took[changesTimed/2], took[changesTimed-1])

	// The proxy goes, and nobody runs it.
	m.agent.Stop()
	says("web", "Programmed", "Unknown NoProxies")
	require.NoError(t, m.agent.Start())
	says("web", "Programmed", "True Programmed 1 of 1 proxies run it")
}
