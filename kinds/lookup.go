package kinds

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/pgmesh/pgmesh/internal/nearest"
)

// The registry never changes, so its indexes are made once, when first asked for.
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
	byWord = sync.OnceValue(func() map[string]*Kind {
		index := map[string]*Kind{}
		for _, k := range registry {
			for _, word := range k.words() {
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

// ByName finds the kind that somebody means who types "vs", "virtualservices", "VirtualService" or
// "gateways.gateway.networking.k8s.io". Where two groups share a word the registry's order decides, so "gateway"
// alone means Istio's.
func ByName(word string) (*Kind, error) {
	lower := strings.ToLower(word)
	if k, ok := byWord()[lower]; ok {
		return k, nil
	}
	return nil, fmt.Errorf("unknown kind %q (%s)", word, nearest.Hint(lower, kindNames(), "known kinds: "))
}

// ByAPIVersion finds the kind that a document names by its apiVersion and kind. The error says which half is wrong and
// what would be right.
func ByAPIVersion(apiVersion, kind string) (*Kind, error) {
	if k, ok := byTypeURL()[apiVersion+"/"+kind]; ok {
		return k, nil
	}
	reason, hint, _ := explainUnknown(apiVersion, kind)
	return nil, fmt.Errorf("%s (%s)", reason, hint)
}

// explainUnknown says why apiVersion and kind name nothing together, what would, and whether there is a kind of this name.
func explainUnknown(apiVersion, kind string) (reason, hint string, known bool) {
	var same []string
	group, version, _ := strings.Cut(apiVersion, "/")
	for _, k := range registry {
		if k.Name != kind {
			continue
		}
		if k.Group == group {
			return fmt.Sprintf("unknown version %q of %s", version, k.fullWord()), "one of " + strings.Join(k.Versions, ", "), true
		}
		same = append(same, k.APIVersion())
	}
	if len(same) > 0 {
		return fmt.Sprintf("unknown apiVersion %q of %s", apiVersion, kind), "write " + strings.Join(same, " or "), true
	}
	return fmt.Sprintf("unknown kind %q", kind), nearest.Hint(kind, kindNames(), "known kinds: "), false
}

// words lists what people type for a kind, in lower case.
func (k *Kind) words() []string {
	name := strings.ToLower(k.Name)
	words := []string{name, k.Plural, name + "." + k.Group, k.Plural + "." + k.Group}
	return append(words, k.ShortNames...)
}

func (k *Kind) fullWord() string { return k.Name + "." + k.Group }

// kindNames lists the names of all kinds, each once.
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
