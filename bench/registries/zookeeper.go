package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/pgmesh/pgmesh/bench/host"
	"github.com/pgmesh/pgmesh/internal/testbench/zookeepertest"
)

// zookeeper has instances as Curator writes them.
type zookeeper struct {
	*zookeepertest.ZooKeeper

	watcher *zookeepertest.Watcher
}

func startZooKeeper(h *host.Host) elsewhere {
	z := zookeepertest.Start(h, nil)
	z.Put("/services", "")
	return zookeeper{z, z.Watcher()}
}

func (z zookeeper) url() string  { return "zookeeper://" + z.Address + "/?protocol=http" }
func (z zookeeper) host() string { return service + ".zookeeper" }

const list = "/services/" + service

func (z zookeeper) fill(many int) {
	var paths, contents []string
	for i := range many {
		name := "service-" + strconv.Itoa(i)
		paths, contents = append(paths, "/services/"+name), append(contents, "")
		for n := range each {
			paths = append(paths, fmt.Sprintf("/services/%s/%d", name, n))
			contents = append(contents, fmt.Sprintf(`{"name":%q,"id":"%d","address":"10.%d.%d.%d","port":8080,"serviceType":"DYNAMIC"}`, name, n, n+1, i/250, i%250+1))
		}
	}
	z.PutMany(paths, contents)
}

func (z zookeeper) put(i instance) {
	z.Put(list+"/"+i.id, fmt.Sprintf(`{"name":%q,"id":%q,"address":%q,"port":%d,"serviceType":"DYNAMIC","enabled":%t,"payload":{"mesh-port":%d}}`,
		service, i.id, i.address, i.port, i.well, i.mesh))
}

func (z zookeeper) remove(id string) { z.Remove(list + "/" + id) }

func (z zookeeper) told(there bool) <-chan time.Time {
	if there {
		return z.watcher.Node(list + "/" + comes)
	}
	return z.watcher.Children(list)
}
