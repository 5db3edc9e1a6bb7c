package main

import (
	"time"

	"github.com/pgmesh/pgmesh/bench/host"
)

// elsewhere is a registry that is not the mesh's, as others change it.
type elsewhere interface {
	// url is what --registry is to name.
	url() string
	// host is the service's in the mesh.
	host() string
	// fill registers other services.
	fill(many int)
	// put registers an instance of the service, or changes it.
	put(i instance)
	// remove takes an instance away.
	remove(id string)
	// told is when a client of the registry's own is told of the next change of the instance that comes and
	// goes, which is there or is not.
	told(there bool) <-chan time.Time
}

// instance is one of the service's, at an address that Envoy reaches.
type instance struct {
	id, address string
	port        int
	mesh        int // the port of the service, on which Envoy listens
	well        bool
}

const (
	service = "bench"
	comes   = "comes" // the instance that comes and goes
	stays   = "stays" // the one that stays
	each    = 5       // instances of each of the other services
	nodes   = 500     // that have them
)

// sort is a sort of registry.
type sort struct {
	name  string
	start func(*host.Host) elsewhere
	// well and registered are its words for an instance that is well again, and for one that comes.
	well, registered string
}

var sorts = []sort{
	{"consul", startConsul, "a check passes, of an instance that had failed", "an instance is registered"},
	{"zookeeper", startZooKeeper, "an instance is enabled that was not", "an instance is registered"},
	{"kubernetes", startKubernetes, "an endpoint becomes ready", "an EndpointSlice comes with an endpoint"},
}
