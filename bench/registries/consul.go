package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pgmesh/pgmesh/bench/host"
	"github.com/pgmesh/pgmesh/internal/testbench/consultest"
)

// consul is a server that keeps nothing on disk.
type consul struct{ *consultest.Consul }

func startConsul(h *host.Host) elsewhere { return consul{consultest.StartDev(h, nil)} }

func (c consul) url() string  { return "consul://" + c.Address + "/?hosts=short" }
func (c consul) host() string { return service + ".service.consul" }

func (c consul) fill(many int) {
	all := make([]consultest.Instance, many*each)
	for i := range all {
		name := "service-" + strconv.Itoa(i/each)
		all[i] = consultest.Instance{
			ID: name + "-" + strconv.Itoa(i%each), Service: name, Node: "node-" + strconv.Itoa(i%nodes),
			Address: fmt.Sprintf("10.%d.%d.1", i/250, i%250), Port: 8080, Meta: map[string]string{"protocol": "http"}, Status: "passing",
		}
	}
	if len(all) > 0 {
		c.RegisterMany(all)
	}
}

func (c consul) put(i instance) {
	status := "critical"
	if i.well {
		status = "passing"
	}
	c.Register(consultest.Instance{
		ID: i.id, Service: service, Node: service + "-" + i.id, Address: i.address, Port: uint32(i.port), Status: status,
		Meta: map[string]string{"protocol": "http", "mesh-port": strconv.Itoa(i.mesh)},
	})
}

func (c consul) remove(id string) { c.DeregisterNode(service + "-" + id) }

func (c consul) told(bool) <-chan time.Time { return c.Told(service) }
