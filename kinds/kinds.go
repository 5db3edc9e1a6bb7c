// Package kinds is the registry of resource kinds: what pgmesh calls a VirtualService or an HTTPRoute, which API
// versions name it, which message carries it on the wire, and how it is read, checked and written.
//
// One row of the table in registry.go describes one kind. Every other stage asks the registry and holds no list of its own.
package kinds

import (
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// Kind describes one kind of resource. There is one *Kind per row of the registry for the life of the process, so
// pointers compare equal exactly when the kinds are the same. Never key by Name alone: two groups have a Gateway.
type Kind struct {
	Name       string   // "VirtualService"
	Plural     string   // "virtualservices"
	ShortNames []string // "vs"
	Group      string   // "networking.istio.io"; MeshConfig and MeshNetworks have "core"
	Versions   []string // the versions that name this kind, the one we write first: "v1", "v1alpha3", "v1beta1"
	Namespaced bool
	Collection string // the legacy MCP collection, "" where there is none

	// Message is the full protobuf name of the spec, "" for kinds that exist only as Go structs elsewhere; those
	// travel as google.protobuf.Struct.
	Message protoreflect.FullName

	// Bare kinds (MeshConfig, MeshNetworks) configure the mesh as a whole, and count in MeshNamespace alone. They travel over MCP without the
	// Resource envelope.
	Bare bool
}

// MeshNamespace is where the MeshConfig and the MeshNetworks are, whatever root namespace they name: who decides about the whole mesh is not to
// be found out by looking through namespaces that others write to.
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
}

// Key returns the name of the resource.
func (r *Resource) Key() Key { return Key{r.Kind, r.Namespace, r.Name} }

// String renders the key as people read it: "VirtualService default/reviews".
func (k Key) String() string { return k.Kind.Name + " " + k.FullName() }

// FullName is the name a resource has over MCP: "namespace/name", or the bare name of a resource without a namespace.
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

// TypeURLs lists every alias of TypeURL, the preferred one first.
func (k *Kind) TypeURLs() []string {
	urls := make([]string, len(k.Versions))
	for i, v := range k.Versions {
		urls[i] = k.Group + "/" + v + "/" + k.Name
	}
	return urls
}

func (k *Kind) String() string { return k.Name }
