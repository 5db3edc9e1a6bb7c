package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pgmesh/pgmesh/bench/host"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
	"github.com/pgmesh/pgmesh/store/embedded"
)

// cluster has routes in the API of Kubernetes.
type cluster struct {
	*kubetest.Cluster

	events <-chan time.Time // of routes, as a client of its own is told
	last   time.Time        // when the last route was sent
}

const (
	apiPath    = "/apis/" + group + "/v1/"
	routesPath = apiPath + "namespaces/" + namespace + "/httproutes"
)

// startCluster starts a cluster that is read by a bridge, or by a server with a database, which writes
// statuses.
func startCluster(h *host.Host, bin, dir string, statuses bool) (*cluster, *stack.Stack, error) {
	c := kubetest.Start(h)
	c.InstallGatewayAPI()
	c.Namespace(namespace)
	url := "kubernetes://" + c.Kubeconfig(c.Address, c.Admin())
	one := &cluster{Cluster: c, events: c.Watch(routesPath)}
	if !statuses {
		s, err := stack.NewBridge(bin, dir, url)
		return one, s, err
	}
	database, err := embedded.Start(h.Context(), embedded.Options{})
	if err != nil {
		return nil, nil, err
	}
	h.Cleanup(database.Stop)
	s, err := stack.New(bin, dir, database.URL())
	if err == nil {
		s.ServerFlags("--registry", url+"?status=true")
	}
	return one, s, err
}

func (c *cluster) prepare(_ context.Context, port int, backends []endpoint) error {
	c.Apply(apiPath+"gatewayclasses/pgmesh", described("GatewayClass", "pgmesh", object{"controllerName": "pgmesh.io/gateway-controller"}))
	c.Apply(apiPath+"namespaces/"+namespace+"/gateways/"+gateway, described("Gateway", gateway, gatewaySpec(port)))
	for _, b := range backends {
		c.ApplyService(kubetest.Service{Namespace: namespace, Name: b.name, Port: servicePort})
		c.ApplySlice(kubetest.Slice{Namespace: namespace, Name: b.name + "-1", Service: b.name, Port: uint32(b.port), Endpoints: []kubetest.Endpoint{{Address: b.address}}})
	}
	return nil
}

func described(kind, name string, spec object) kubetest.Object {
	return kubetest.Object{"apiVersion": group + "/v1", "kind": kind, "metadata": object{"name": name}, "spec": spec}
}

func (c *cluster) write(_ context.Context, r route) error {
	c.forget()
	c.last = time.Now()
	c.Apply(routesPath+"/"+r.name, described("HTTPRoute", r.name, r.spec))
	return nil
}

func (c *cluster) writeAll(_ context.Context, all []route) error {
	creations := make([]kubetest.Creation, len(all))
	for i, r := range all {
		creations[i] = kubetest.Creation{Path: routesPath, Object: described("HTTPRoute", r.name, r.spec)}
	}
	c.Create(creations)
	return nil
}

// floor is when a watch of its own told of the last route.
func (c *cluster) floor(ctx context.Context) (time.Duration, error) {
	select {
	case at := <-c.events:
		return at.Sub(c.last), nil
	case <-ctx.Done():
		return 0, fmt.Errorf("a watch of its own was told nothing: %w", ctx.Err())
	}
}

// forget drops the events of earlier changes.
func (c *cluster) forget() {
	for {
		select {
		case <-c.events:
		default:
			return
		}
	}
}

func (c *cluster) attached(context.Context) (n counted, err error) {
	var found struct {
		Status struct {
			Listeners []struct{ AttachedRoutes int }
		}
	}
	err = json.Unmarshal(c.Get(apiPath+"namespaces/"+namespace+"/gateways/"+gateway), &found)
	for _, l := range found.Status.Listeners {
		n.routes += l.AttachedRoutes
	}
	n.at = time.Now()
	return n, err
}

func (c *cluster) stated(context.Context) (n counted, err error) {
	var list struct {
		Items []struct {
			Status struct {
				Parents []struct {
					Conditions []struct{ Type, Status string }
				}
			}
		}
	}
	err = json.Unmarshal(c.Get(routesPath), &list)
	for _, one := range list.Items {
		for _, p := range one.Status.Parents {
			for _, condition := range p.Conditions {
				if condition.Type == "Accepted" && condition.Status == "True" {
					n.routes++
				}
			}
		}
	}
	n.at = time.Now()
	return n, err
}
