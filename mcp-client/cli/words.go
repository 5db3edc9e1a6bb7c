package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// word returns the short name of a kind: "virtualservice". If the name alone means another kind it includes
// the group: "gateway.gateway.networking.k8s.io".
func word(k *kinds.Kind) string {
	short := strings.ToLower(k.Name)
	if meant, err := kinds.ByName(short); err == nil && meant == k {
		return short
	}
	return short + "." + k.Group
}

// reference names a resource in a form that get and delete accept.
func reference(key kinds.Key) string {
	return strings.ToLower(key.Kind.Name) + "." + key.Kind.Group + "/" + key.FullName()
}

// wanted is what an argument asks for: a kind, and one resource of it or all.
type wanted struct {
	kind            *kinds.Kind
	namespace, name string // namespace is "" for that of the command, name is "" for all
}

// parseWanted parses "KIND", "KIND,KIND", "all", "KIND NAME..." and "KIND/NAME..."; a NAME may be
// "NAMESPACE/NAME".
func parseWanted(args []string) ([]wanted, error) { return parseWantedOf(args, kinds.ByName) }

// resourceOrSecret finds a kind by name, Secret included.
func resourceOrSecret(word string) (*kinds.Kind, error) {
	if kinds.IsSecretName(word) {
		return kinds.Secret, nil
	}
	return kinds.ByName(word)
}

func parseWantedOf(args []string, kindOf func(string) (*kinds.Kind, error)) ([]wanted, error) {
	if len(args) == 0 {
		return nil, errors.New("name a kind, such as virtualservices, or all")
	}
	if strings.Contains(args[0], "/") {
		return parseReferences(args, kindOf)
	}
	ks, err := parseKindsOf(args[0], kindOf)
	if err != nil {
		return nil, err
	}
	names := args[1:]
	if len(names) == 0 {
		names = []string{""}
	}
	var all []wanted
	for _, k := range ks {
		for _, name := range names {
			all = append(all, parseName(k, name))
		}
	}
	return all, nil
}

// parseKindsOf parses "vs", "vs,dr" and "all".
func parseKindsOf(list string, kindOf func(string) (*kinds.Kind, error)) ([]*kinds.Kind, error) {
	if list == "all" {
		return kinds.All(), nil
	}
	var ks []*kinds.Kind
	for name := range strings.SplitSeq(list, ",") {
		k, err := kindOf(name)
		if err != nil {
			return nil, err
		}
		ks = append(ks, k)
	}
	return ks, nil
}

func parseReferences(args []string, kindOf func(string) (*kinds.Kind, error)) ([]wanted, error) {
	var all []wanted
	for _, arg := range args {
		kind, name, found := strings.Cut(arg, "/")
		if !found || name == "" {
			return nil, fmt.Errorf("%q is not of the form KIND/NAME, as the first argument is", arg)
		}
		k, err := kindOf(kind)
		if err != nil {
			return nil, err
		}
		all = append(all, parseName(k, name))
	}
	return all, nil
}

func parseName(k *kinds.Kind, name string) wanted {
	if namespace, short, found := strings.Cut(name, "/"); found {
		return wanted{k, namespace, short}
	}
	return wanted{kind: k, name: name}
}

// in returns the key of a wanted resource, with the default namespace.
func (w wanted) in(n namespace) kinds.Key {
	key := kinds.Key{Kind: w.kind, Namespace: w.namespace, Name: w.name}
	if key.Namespace == "" && w.kind.Namespaced {
		key.Namespace = n.name
	}
	return key
}
