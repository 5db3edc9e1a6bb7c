package gatewayapi

import (
	"slices"
)

// namespaceLabel is the label that each namespace has its name in. Namespaces of a mesh have no
// others.
const namespaceLabel = "kubernetes.io/metadata.name"

// namespaces is whose routes, or listeners, a Gateway takes.
type namespaces struct {
	all    bool
	only   []string      // those that can be listed
	choose *selectorSpec // picks by the name of a namespace, where they cannot be listed
}

// readNamespaces reads whom a Gateway takes, which is in the namespace own. Without a word those of
// otherwise: "Same" or "None".
func readNamespaces(spec *namespacesSpec, own, otherwise string) namespaces {
	from := otherwise
	if spec != nil {
		from = or(spec.From, otherwise)
	}
	switch {
	case from == "All":
		return namespaces{all: true}
	case from == "Same":
		return namespaces{only: []string{own}}
	case from == "Selector" && spec.Selector != nil:
		return selected(spec.Selector)
	default:
		return namespaces{}
	}
}

// selected lists the namespaces that a selector picks by their names, if it names them.
func selected(s *selectorSpec) namespaces {
	var named []string
	if name, ok := s.MatchLabels[namespaceLabel]; ok {
		named = []string{name}
	}
	for _, e := range s.MatchExpressions {
		if e.Key == namespaceLabel && e.Operator == "In" {
			named = append(named, e.Values...)
		}
	}
	if len(named) == 0 {
		return namespaces{choose: s}
	}
	named = slices.DeleteFunc(named, func(name string) bool { return !s.matches(name) })
	slices.Sort(named)
	return namespaces{only: slices.Compact(named)}
}

// matches reports whether a selector picks a namespace.
func (s *selectorSpec) matches(namespace string) bool {
	for label, value := range s.MatchLabels {
		if label != namespaceLabel || value != namespace {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		has := e.Key == namespaceLabel
		holds := false
		switch e.Operator {
		case "In":
			holds = has && slices.Contains(e.Values, namespace)
		case "NotIn":
			holds = !has || !slices.Contains(e.Values, namespace)
		case "Exists":
			holds = has
		case "DoesNotExist":
			holds = !has
		}
		if !holds {
			return false
		}
	}
	return true
}

// include reports whether a namespace is among them.
func (n namespaces) include(namespace string) bool {
	return n.all || slices.Contains(n.only, namespace) || n.choose != nil && n.choose.matches(namespace)
}

// hosts writes the hosts of a server that admits the namespaces. If these cannot be listed, the server
// admits none by its hosts; the Gateway itself attaches the routes that it takes.
func (n namespaces) hosts(host string) (out []string) {
	switch {
	case n.all:
		return []string{"*/" + host}
	case len(n.only) == 0:
		return []string{"~/" + host}
	}
	for _, namespace := range n.only {
		out = append(out, namespace+"/"+host)
	}
	return out
}
