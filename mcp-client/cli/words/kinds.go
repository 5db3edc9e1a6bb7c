package words

import (
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// Kind returns the short name of a kind: "virtualservice". If the name alone means another kind it
// includes the group: "gateway.gateway.networking.k8s.io".
func Kind(k *kinds.Kind) string {
	short := strings.ToLower(k.Name)
	if k == kinds.Secret { // which no registry has
		return short
	}
	if meant, err := kinds.ByName(short); err == nil && meant == k {
		return short
	}
	return short + "." + k.Group
}

// Reference names a resource in a form that get and delete accept.
func Reference(key kinds.Key) string {
	if key.Kind == kinds.Secret {
		return Kind(key.Kind) + "/" + key.FullName()
	}
	return strings.ToLower(key.Kind.Name) + "." + key.Kind.Group + "/" + key.FullName()
}

// Lookup finds a kind, which may be Secret.
func Lookup(group, name string) (*kinds.Kind, bool) {
	if group == kinds.Secret.Group && name == kinds.Secret.Name {
		return kinds.Secret, true
	}
	return kinds.Lookup(group, name)
}

// Title names a resource for people, even one of an unknown kind.
func Title(group, kind, namespace, name string) string {
	k, known := Lookup(group, kind)
	key := kinds.Key{Kind: k, Namespace: namespace, Name: name}
	if !known {
		return kind + "." + group + " " + key.FullName()
	}
	return Kind(k) + " " + key.FullName()
}

// ReferenceTo is Reference for a resource that may be of an unknown kind.
func ReferenceTo(group, kind, namespace, name string) string {
	k, known := Lookup(group, kind)
	key := kinds.Key{Kind: k, Namespace: namespace, Name: name}
	if !known {
		return strings.ToLower(kind) + "." + group + "/" + key.FullName()
	}
	return Reference(key)
}

// KindNamed is Kind for a kind that may be unknown.
func KindNamed(group, name string) string {
	if kind, known := Lookup(group, name); known {
		return Kind(kind)
	}
	return name + "." + group
}

// Done says what an operation of the admin API did.
var Done = map[string]string{"create": "created", "update": "changed", "delete": "deleted"}
