package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pgmesh/pgmesh/bench/host"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
)

// kubernetes is a cluster without a kubelet and controllers. Each instance is an EndpointSlice, for the
// endpoints of one have the same port.
type kubernetes struct {
	*kubetest.Cluster

	config string
	events <-chan time.Time
}

func startKubernetes(h *host.Host) elsewhere {
	c := kubetest.Start(h)
	c.Namespace(service)
	return kubernetes{c, c.Kubeconfig(c.Address, c.Admin()), c.Watch("/apis/discovery.k8s.io/v1/namespaces/" + service + "/endpointslices")}
}

func (k kubernetes) url() string  { return "kubernetes://" + k.config }
func (k kubernetes) host() string { return service + "." + service + ".svc.cluster.local" }

func (k kubernetes) fill(many int) {
	const others = "others"
	k.Namespace(others)
	for n := range min(nodes, many*each) {
		k.ApplyNode("node-"+strconv.Itoa(n), "eu", "zone-"+strconv.Itoa(n%3))
	}
	all := make([]kubetest.Creation, 0, (2+each)*many)
	for i := range many {
		name := "service-" + strconv.Itoa(i)
		s := kubetest.Slice{Namespace: others, Name: name + "-1", Service: name, Port: 8080}
		for n := range each {
			p := kubetest.Pod{
				Namespace: others, Name: name + "-" + strconv.Itoa(n), Node: "node-" + strconv.Itoa((i*each+n)%nodes), Account: name,
				Labels: map[string]string{"app": name, "version": "v1", "security.istio.io/tlsMode": "istio"},
			}
			all = append(all, p.Creation())
			s.Endpoints = append(s.Endpoints, kubetest.Endpoint{Address: fmt.Sprintf("10.%d.%d.%d", n+1, i/250, i%250+1), Pod: p.Name, Node: p.Node})
		}
		all = append(all, kubetest.Service{Namespace: others, Name: name, Port: 80, More: kubetest.Object{"selector": kubetest.Object{"app": name}}}.Creation(), s.Creation())
	}
	k.Create(all)
}

func (k kubernetes) put(i instance) {
	if i.id == stays {
		k.ApplyService(kubetest.Service{Namespace: service, Name: service, Port: uint32(i.mesh)})
	}
	k.ApplySlice(kubetest.Slice{
		Namespace: service, Name: i.id, Service: service, Port: uint32(i.port), Endpoints: []kubetest.Endpoint{{Address: i.address, NotReady: !i.well}},
	})
}

func (k kubernetes) remove(id string) { k.Delete(kubetest.SlicePath(service, id)) }

// told drops the events of earlier changes, and returns the channel on which the next one arrives.
func (k kubernetes) told(bool) <-chan time.Time {
	for {
		select {
		case <-k.events:
		default:
			return k.events
		}
	}
}
