// Package registry says what a registry is: a place where services are kept that is not the mesh's
// own database, such as Consul, ZooKeeper or a Kubernetes cluster.
//
// An implementation is a package beside this one. It reads its registry and tells a [Sink] what is
// there, as resources of the mesh's ordinary kinds. Package service makes those of services, the
// same way for every registry; package registrytest has the test that each implementation passes.
//
// Whoever runs a registry checks what it gives, says of each resource where it comes from
// (kinds.OriginAnnotation), and keeps what there is for as long as the registry is away.
package registry

import (
	"context"

	"github.com/pgmesh/pgmesh/kinds"
)

// Registry reads services that are kept elsewhere.
type Registry interface {
	// Name is unique among the registries of a mesh, such as "consul-dc1". It has the form of a DNS
	// label: the names of resources that are made of services begin with it.
	Name() string
	// Run tells the sink what there is until the context ends, whose error it then returns. It goes
	// on trying when the registry cannot be asked, and returns another error only if its settings can
	// never work. It leaves no goroutine behind, and may be called again.
	Run(ctx context.Context, sink Sink) error
}

// Sink takes what a registry has. Its methods must not be called concurrently, nor after Run has
// returned. They do not wait for anything. What they are given must not be changed afterwards.
//
// Resources whose pointers stay the same are known to be unchanged; others are compared.
type Sink interface {
	// Replace gives everything that the registry has, once all of it was read: at first, and when
	// changes may have been missed. An empty list says that there is nothing. It is never called
	// because the registry could not be asked.
	Replace(all []*kinds.Resource)
	// Holds reports whether resources of the registry stand, also from before the server was started.
	// A registry that seems to have lost everything may then be another one at its place.
	Holds() bool
	// Apply makes changes, which belong together, to what Replace gave. Before Replace there is
	// nothing to change.
	Apply(changes []kinds.Change)
	// Bad says that an entry of the registry cannot be made a resource, and why; nil says that it can
	// again, or is gone. The name is what kinds.OriginEntryAnnotation says on resources that are made
	// of the entry, or what stands in that before its first "/", for all entries that begin so. Those
	// resources that were made of them before stay, also where Replace leaves them out.
	Bad(name string, err error)
	// Secrets gives all secrets of a namespace that the registry has for gateways, at first and
	// whenever one has changed. They are kept apart from resources: their values are shown to nobody.
	Secrets(namespace string, all []Secret)
	// Away says that the registry cannot be asked, and why; nil says that it can. A change of the
	// reason may be told, too.
	Away(err error)
}

// Chain is a sink that serves what it is told as a server that others may follow. A registry that is
// such a server finds out by it whether what it has comes from where it goes.
type Chain interface {
	Sink
	// Self waits until the server knows of which mesh it is, and returns its own id, which is new with
	// each start, and that of its mesh, "" if it has none.
	Self(ctx context.Context) (server, mesh string, err error)
	// Behind says by which ids of servers the registry is read, and of which meshes what it has is.
	Behind(servers, meshes []string)
}
