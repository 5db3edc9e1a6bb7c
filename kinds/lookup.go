package kinds

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// The registry never changes, so its indexes are built once, on first use.
var (
	byGroupName = sync.OnceValue(func() map[[2]string]*Kind {
		index := map[[2]string]*Kind{}
		for _, k := range registry {
			index[[2]string{k.Group, k.Name}] = k
		}
		return index
	})
	byTypeURL = sync.OnceValue(func() map[string]*Kind {
		index := map[string]*Kind{}
		for _, k := range registry {
			for _, url := range k.TypeURLs() {
				index[url] = k
			}
		}
		return index
	})
	byAlias = sync.OnceValue(func() map[string]*Kind {
		index := map[string]*Kind{}
		for _, k := range registry {
			for _, word := range k.aliases() {
				if _, taken := index[word]; !taken {
					index[word] = k
				}
			}
		}
		return index
	})
)

// Lookup finds the kind with exactly this group and name.
func Lookup(group, name string) (*Kind, bool) {
	k, ok := byGroupName()[[2]string{group, name}]
	return k, ok
}

// ByTypeURL finds the kind of an MCP-over-xDS type URL, whichever of its versions the URL names.
func ByTypeURL(url string) (*Kind, bool) {
	k, ok := byTypeURL()[url]
	return k, ok
}

// ByName finds the kind for what a user types: "vs", "virtualservices", "VirtualService" or
// "gateways.gateway.networking.k8s.io". Where two groups share a name, the earlier in the registry
// wins, so "gateway" alone means Istio's. The error says in a line what was meant.
func ByName(word string) (*Kind, error) {
	if k, ok := byAlias()[strings.ToLower(word)]; ok {
		return k, nil
	}
	return nil, fmt.Errorf("unknown kind %q (%s)", word, hintFor(word))
}

// Namesake returns the kind of another group that has the same name, and nil if there is none.
func (k *Kind) Namesake() *Kind {
	i := slices.IndexFunc(registry, func(other *Kind) bool { return other.Name == k.Name && other != k })
	if i < 0 {
		return nil
	}
	return registry[i]
}

// ByAPIVersion finds the kind for a document's apiVersion and kind. The error says which of the two
// is wrong and suggests a right one.
func ByAPIVersion(apiVersion, kind string) (*Kind, error) {
	if k, ok := byTypeURL()[apiVersion+"/"+kind]; ok {
		return k, nil
	}
	reason, hint, _ := explainUnknown(apiVersion, kind)
	return nil, fmt.Errorf("%s (%s)", reason, hint)
}

// explainUnknown says why this apiVersion and kind match no kind, suggests one that does, and
// reports whether any kind has this name.
func explainUnknown(apiVersion, kind string) (reason, hint string, known bool) {
	var same []string
	group, version, _ := strings.Cut(apiVersion, "/")
	for _, k := range registry {
		if k.Name != kind {
			continue
		}
		if k.Group == group {
			return fmt.Sprintf("unknown version %q of %s", version, k.qualifiedName()), "one of " + strings.Join(k.Versions, ", "), true
		}
		same = append(same, k.APIVersion())
	}
	if len(same) > 0 {
		return fmt.Sprintf("unknown apiVersion %q of %s", apiVersion, kind), "write " + strings.Join(same, " or "), true
	}
	return fmt.Sprintf("unknown kind %q", kind), hintFor(kind), false
}

// aliases lists what users type for a kind, in lower case.
func (k *Kind) aliases() []string {
	name := strings.ToLower(k.Name)
	words := []string{name, k.Plural, name + "." + k.Group, k.Plural + "." + k.Group}
	for _, short := range k.ShortNames {
		words = append(words, short, short+"."+k.Group)
	}
	return words
}

func (k *Kind) qualifiedName() string { return k.Name + "." + k.Group }

// kindNames lists the names of all kinds, sorted and without duplicates.
func kindNames() []string {
	var names []string
	for _, k := range registry {
		if !slices.Contains(names, k.Name) {
			names = append(names, k.Name)
		}
	}
	slices.Sort(names)
	return names
}
