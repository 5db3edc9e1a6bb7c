// Package arguments reads what the words of a command line ask for: kinds, resources, namespaces,
// moments.
package arguments

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// Wanted is what an argument asks for: a kind, and one resource of it or all.
type Wanted struct {
	Kind            *kinds.Kind
	Namespace, Name string // namespace is "" for that of the command, name is "" for all
}

// Parse parses "KIND", "KIND,KIND", "all", "KIND NAME..." and "KIND/NAME..."; a NAME may be
// "NAMESPACE/NAME".
func Parse(args []string) ([]Wanted, error) { return ParseOf(args, resourceOf) }

// ErrSecrets refuses secrets where only resources can be meant.
var ErrSecrets = errors.New("this command does not take secrets: mcp-client get, describe and delete do, apply -f FILE makes one what the file says, and mcp-client secret --help tells more")

// resourceOf finds a kind by name, which must not be Secret.
func resourceOf(word string) (*kinds.Kind, error) {
	if kinds.IsSecretName(word) {
		return nil, ErrSecrets
	}
	return kinds.ByName(word)
}

// ResourceOrSecret finds a kind by name, Secret included.
func ResourceOrSecret(word string) (*kinds.Kind, error) {
	if kinds.IsSecretName(word) {
		return kinds.Secret, nil
	}
	return kinds.ByName(word)
}

// ParseOf is Parse with another way to find a kind by a name.
func ParseOf(args []string, kindOf func(string) (*kinds.Kind, error)) ([]Wanted, error) {
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
	var all []Wanted
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

func parseReferences(args []string, kindOf func(string) (*kinds.Kind, error)) ([]Wanted, error) {
	var all []Wanted
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

func parseName(k *kinds.Kind, name string) Wanted {
	if namespace, short, found := strings.Cut(name, "/"); found {
		return Wanted{k, namespace, short}
	}
	return Wanted{Kind: k, Name: name}
}

// In returns the key of a wanted resource, with the default namespace.
func (w Wanted) In(n Namespace) kinds.Key {
	key := kinds.Key{Kind: w.Kind, Namespace: w.Namespace, Name: w.Name}
	if key.Namespace == "" && w.Kind.Namespaced {
		key.Namespace = n.Name
	}
	return key
}

// Distinct removes duplicates and keeps the order.
func Distinct[T comparable](values []T) []T {
	var kept []T
	for _, v := range values {
		if !slices.Contains(kept, v) {
			kept = append(kept, v)
		}
	}
	return kept
}

// KindsOf returns the kinds that a query is about, each once.
func KindsOf(query []Wanted) []*kinds.Kind {
	var ks []*kinds.Kind
	for _, w := range query {
		if !slices.Contains(ks, w.Kind) {
			ks = append(ks, w.Kind)
		}
	}
	return ks
}
