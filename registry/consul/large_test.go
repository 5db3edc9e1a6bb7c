package consul_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/registrytest"
)

const (
	few     = 5   // instances of a service
	servers = 500 // nodes
	tries   = 15
)

func TestALargeCatalog(t *testing.T) {
	t.Run("over connections", func(t *testing.T) {
		c := consultest.StartDev(t, nil)
		startsAndTells(t, c, c.Address, "")
		costs(t, c, c.Address, "")
	})
	t.Run("over streams", func(t *testing.T) {
		c, ca := secure(t)
		startsAndTells(t, c, c.Secure, "&tls-ca="+ca)
		costs(t, c, c.Secure, "&tls-ca="+ca)
	})
}

// costs has instances fail, come and go, in services that are watched and in others.
func costs(t *testing.T, c *consultest.Consul, address, parameters string) {
	t.Helper()
	many := registrytest.Services(t, 1000)
	var edits []registrytest.Edit
	for _, service := range []int{many - 2*tries, many / 2, many/2 + 1} {
		more, host := instance(service, few), fmt.Sprintf("service-%d.service.consul", service)
		more.Node, more.NodeMeta = more.ID, nil // others have what the node says of itself, too
		edits = append(edits,
			registrytest.Edit{What: "a check fails", Host: host, Do: func() { _, failed := failing(service); c.Register(failed) }},
			registrytest.Edit{What: "an instance comes", Host: host, Do: func() { c.Register(more) }},
			registrytest.Edit{What: "an instance goes", Host: host, Do: func() { c.Deregister(more.Node, more.ID) }},
		)
	}
	registrytest.CostsOneAssignment(t, "consul://"+address+"/?hosts=short"+parameters, many, edits)
}

// secure starts a Consul that serves HTTPS, too. It returns the file of its authority.
func secure(t *testing.T) (*consultest.Consul, string) {
	t.Helper()
	authority := certtest.NewAuthority(t)
	folder := t.TempDir()
	ca := filepath.Join(folder, "ca.pem")
	certtest.WriteFile(t, ca, authority.PEM)
	cert, key := authority.Issue(nil).Write(t, folder)
	return consultest.StartDev(t, consultest.Config{"tls": consultest.Config{
		"defaults": consultest.Config{"ca_file": ca, "cert_file": cert, "key_file": key},
	}}), ca
}

func startsAndTells(t *testing.T, c *consultest.Consul, address, parameters string) {
	t.Helper()
	many := registrytest.Services(t, 1000)
	begun := time.Now()
	c.RegisterMany(everything(many))
	t.Logf("%d services with %d instances are registered after %s", many, many*few, time.Since(begun))

	before := registrytest.Heap()
	h := registrytest.NewTimer()
	begun = time.Now()
	stop := registrytest.Run(open(t, address, "hosts=short"+parameters), h)
	defer func() { require.ErrorIs(t, stop(), context.Canceled) }()
	<-h.Read
	t.Logf("started in %s; the heap has %d MB more", time.Since(begun), (registrytest.Heap()-before)>>20)
	require.Len(t, h.All(), many)

	// Those that were registered last are watched.
	measure(t, c, h, "a check fails, in a service that is not watched", failing)
	measure(t, c, h, "an instance is changed, in a service that is watched", func(i int) (int, consultest.Instance) {
		return moved(many-1-i, i)
	})
	measure(t, c, h, "an instance is changed, in a service that is not watched", func(i int) (int, consultest.Instance) {
		return moved(20+i*7, i)
	})
	measure(t, c, h, "the first instance of a service comes", func(i int) (int, consultest.Instance) {
		return many + i, instance(many+i, 0)
	})
	t.Logf("at the end the heap has %d MB more", (registrytest.Heap()-before)>>20)
}

func everything(many int) []consultest.Instance {
	all := make([]consultest.Instance, 0, many*few)
	for i := range many * few {
		all = append(all, instance(i/few, i%few))
	}
	return all
}

func instance(service, n int) consultest.Instance {
	id := fmt.Sprintf("service-%d-%d", service, n)
	return consultest.Instance{
		ID: id, Service: fmt.Sprintf("service-%d", service), Node: fmt.Sprintf("node-%d", (service*few+n)%servers),
		Address: fmt.Sprintf("10.%d.%d.%d", n+1, service/250, service%250+1), Port: 8080, Tags: []string{"v1", "team=a"},
		Meta: map[string]string{"protocol": "http", "version": "1.2.3"}, NodeMeta: map[string]string{"zone": "zone-" + strconv.Itoa(n)},
		Status: "passing",
	}
}

func failing(i int) (int, consultest.Instance) {
	out := instance(i, 0)
	out.Status = "critical"
	return i, out
}

func moved(service, i int) (int, consultest.Instance) {
	out := instance(service, 0)
	out.Port = uint32(9000 + i)
	return service, out
}

// measure says how long it takes until the registry tells of a change, and as its floor, until Consul
// answers a query that waits for this service alone.
func measure(t *testing.T, c *consultest.Consul, h *registrytest.Timer, what string, change func(i int) (int, consultest.Instance)) {
	t.Helper()
	var took, floor []time.Duration
	counted := h.Changes()
	for i := range tries {
		service, to := change(i)
		name := fmt.Sprintf("service-%d", service)
		told := c.Told(name)
		reached := h.Await("consul."+name, func(entry *networking.ServiceEntry) bool {
			return slices.ContainsFunc(entry.GetEndpoints(), func(e *networking.WorkloadEntry) bool {
				is := e.GetAddress() == to.Address && (to.Port == 8080) == (entry.GetPorts()[0].GetNumber() == 8080 && len(entry.GetPorts()) == 1)
				return is && (to.Status == "critical") == (e.GetLabels()[kinds.HealthLabel] == kinds.HealthUnhealthy)
			})
		})
		begun := time.Now()
		c.Register(to)
		took = append(took, (<-reached).Sub(begun))
		floor = append(floor, (<-told).Sub(begun))
	}
	slices.Sort(took)
	slices.Sort(floor)
	t.Logf("%s: median %s, most %s; Consul's own client is told after %s, %s; changes told: %d", what,
		took[tries/2], took[tries-1], floor[tries/2], floor[tries-1], h.Changes()-counted)
}
