package kubernetes_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

const (
	few     = 5   // endpoints of a service
	servers = 200 // nodes
	tries   = 31
)

func TestALargeCluster(t *testing.T) {
	c := kubetest.Start(t)
	many := registrytest.Services(t, 500)
	begun := time.Now()
	fill(c, many)
	t.Logf("%d services with %d endpoints at %d Pods are made after %s", many, many*few, many*few, time.Since(begun))

	before := registrytest.Heap()
	h := registrytest.NewTimer()
	begun = time.Now()
	stop := registrytest.Run(open(t, c.Kubeconfig(c.Address, c.Admin()), "namespaces=shop"), h)
	defer func() { require.ErrorIs(t, stop(), context.Canceled) }()
	<-h.Read
	t.Logf("started in %s; the heap has %d MB more", time.Since(begun), (registrytest.Heap()-before)>>20)
	require.Len(t, h.All(), many)
	for _, r := range h.All() {
		require.Len(t, r.Spec.Message().(*networking.ServiceEntry).GetEndpoints(), few)
	}

	told := c.Watch("/apis/discovery.k8s.io/v1/namespaces/shop/endpointslices")
	var took, floor []time.Duration
	counted := h.Changes()
	for i := range tries {
		s := sliceOf(i)
		s.Endpoints[0].NotReady = true
		reached := h.Await(fmt.Sprintf("kubernetes.service-%d", i), func(entry *networking.ServiceEntry) bool {
			return slices.ContainsFunc(entry.GetEndpoints(), func(e *networking.WorkloadEntry) bool {
				return e.GetAddress() == s.Endpoints[0].Address && e.GetLabels()[kinds.HealthLabel] == kinds.HealthUnhealthy
			})
		})
		begun := time.Now()
		c.ApplySlice(s)
		took = append(took, (<-reached).Sub(begun))
		floor = append(floor, (<-told).Sub(begun))
	}
	slices.Sort(took)
	slices.Sort(floor)
	require.Equal(t, tries, h.Changes()-counted, "a change of one endpoint is one change")
	t.Logf("an endpoint fails: median %s, most %s; another client of the cluster is told after %s, %s", took[tries/2], took[tries-1], floor[tries/2], floor[tries-1])
	t.Logf("at the end the heap has %d MB more", (registrytest.Heap()-before)>>20)
	costs(t, c, many)
}

// costs has endpoints fail, go and come.
func costs(t *testing.T, c *kubetest.Cluster, many int) {
	t.Helper()
	var edits []registrytest.Edit
	for i := range 3 {
		failed, fewer := sliceOf(many-1-i), sliceOf(many-1-i)
		failed.Endpoints[0].NotReady = true
		fewer.Endpoints = fewer.Endpoints[1:]
		host := fmt.Sprintf("service-%d.shop.svc.cluster.local", many-1-i)
		edits = append(edits,
			registrytest.Edit{What: "an endpoint fails", Host: host, Do: func() { c.ApplySlice(failed) }},
			registrytest.Edit{What: "it goes", Host: host, Do: func() { c.ApplySlice(fewer) }},
			registrytest.Edit{What: "it is back", Host: host, Do: func() { c.ApplySlice(sliceOf(many - 1 - i)) }},
		)
	}
	registrytest.CostsOneAssignment(t, "kubernetes://"+c.Kubeconfig(c.Address, c.Admin())+"?namespaces=shop", many, edits)
}

// fill makes services, each with one slice.
func fill(c *kubetest.Cluster, many int) {
	c.Namespace(shop)
	for n := range servers {
		c.ApplyNode(fmt.Sprintf("node-%d", n), "eu", "zone-"+strconv.Itoa(n%3))
	}
	all := make([]kubetest.Creation, 0, many*(few+2))
	for i := range many {
		s := sliceOf(i)
		for _, e := range s.Endpoints {
			all = append(all, kubetest.Pod{Namespace: shop, Name: e.Pod, Node: e.Node, Account: "account-" + strconv.Itoa(i), Labels: map[string]string{
				"app": s.Service, "version": "v1", "pod-template-hash": "5d8c7b9f4" + strconv.Itoa(i%10), "security.istio.io/tlsMode": "istio",
			}}.Creation())
		}
		all = append(all, kubetest.Service{Namespace: shop, Name: s.Service, Port: 80, More: kubetest.Object{"selector": kubetest.Object{"app": s.Service}}}.Creation(), s.Creation())
	}
	c.Create(all)
}

func sliceOf(service int) kubetest.Slice {
	name := fmt.Sprintf("service-%d", service)
	s := kubetest.Slice{Namespace: shop, Name: name + "-abcde", Service: name, Port: 8080}
	for n := range few {
		s.Endpoints = append(s.Endpoints, kubetest.Endpoint{
			Address: fmt.Sprintf("10.%d.%d.%d", n+1, service/250, service%250+1), Pod: fmt.Sprintf("%s-5d8c7b9f4-%d", name, n),
			Node: fmt.Sprintf("node-%d", (service*few+n)%servers),
		})
	}
	return s
}
