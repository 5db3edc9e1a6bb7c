// Package kinds is the registry of resource kinds: what pgmesh calls a VirtualService or an
// HTTPRoute, which API versions name it, which message carries it on the wire, and how it is read,
// checked and written.
//
// A Batch is what one revision changed, as it travels from a source through all stages.
//
// Each row of the table in registry.go describes one kind. Other packages ask the registry and keep
// no list of their own.
package kinds

import (
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Kind describes one kind of resource. There is one *Kind per row of the registry for the life of
// the process, so pointers compare equal exactly when the kinds are the same. Never key by Name
// alone: two groups have a Gateway.
type Kind struct {
	Name       string   // "VirtualService"
	Plural     string   // "virtualservices"
	ShortNames []string // "vs"
	Group      string   // "networking.istio.io"; MeshConfig and MeshNetworks have "core"
	Versions   []string // the versions that name this kind, the one we write first: "v1", "v1alpha3", "v1beta1"
	Namespaced bool
	Collection string // the legacy MCP collection, "" where there is none

	// Message is the full protobuf name of the spec. It is "" for kinds that have no protobuf
	// message; their specs travel as google.protobuf.Struct.
	Message protoreflect.FullName

	// Bare kinds (MeshConfig, MeshNetworks) configure the mesh as a whole, and count only in
	// MeshNamespace. They travel over MCP without the Resource envelope.
	Bare bool
}

// MeshNamespace is the namespace of the MeshConfig and the MeshNetworks, whatever root namespace
// they name. A fixed one keeps the mesh's configuration out of namespaces that others may write to.
const MeshNamespace = "istio-system"

// Key names one resource.
type Key struct {
	Kind            *Kind
	Namespace, Name string
}

// Resource is one resource as it travels between stages.
type Resource struct {
	Kind            *Kind
	Namespace, Name string
	Labels          map[string]string
	Annotations     map[string]string
	CreateTime      time.Time
	Spec            *Spec
	// Version tells the contents of a resource of a registry apart, as its server serves it; "" of
	// others, whose contents revisions tell apart.
	Version string
}

// Key returns the name of the resource.
func (r *Resource) Key() Key { return Key{r.Kind, r.Namespace, r.Name} }

// String returns the key as people read it: "VirtualService default/reviews".
func (k Key) String() string { return k.Kind.Name + " " + k.FullName() }

// FullName is the resource's name over MCP: "namespace/name", or just the name of a resource
// without a namespace.
func (k Key) FullName() string {
	if k.Namespace == "" {
		return k.Name
	}
	return k.Namespace + "/" + k.Name
}

// APIVersion is what people write in apiVersion: "networking.istio.io/v1".
func (k *Kind) APIVersion() string { return k.Group + "/" + k.Versions[0] }

// TypeURL is the kind's preferred MCP-over-xDS type URL: "networking.istio.io/v1/VirtualService".
func (k *Kind) TypeURL() string { return k.APIVersion() + "/" + k.Name }

// TypeURLs lists the type URL of every version, the preferred one first.
func (k *Kind) TypeURLs() []string {
	urls := make([]string, len(k.Versions))
	for i, v := range k.Versions {
		urls[i] = k.Group + "/" + v + "/" + k.Name
	}
	return urls
}

func (k *Kind) String() string { return k.Name }
