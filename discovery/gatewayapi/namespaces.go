package gatewayapi

import (
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
)

// namespaces is whose routes, or listeners, a Gateway takes.
type namespaces struct {
	all    bool
	only   []string      // those that can be listed
	choose *selectorSpec // picks by the labels of a namespace, where they cannot be listed
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

// selected lists the namespaces that a selector picks by their names, if it names them and asks for
// nothing else.
func selected(s *selectorSpec) namespaces {
	named, only := s.named()
	if len(named) == 0 || !only {
		return namespaces{choose: s}
	}
	named = slices.DeleteFunc(named, func(name string) bool { return !s.matches(map[string]string{kinds.NamespaceLabel: name}) })
	slices.Sort(named)
	return namespaces{only: slices.Compact(named)}
}

// named are the names that a selector has, and whether it asks for names only.
func (s *selectorSpec) named() (names []string, only bool) {
	only = true
	for label, value := range s.MatchLabels {
		if label == kinds.NamespaceLabel {
			names = append(names, value)
		} else {
			only = false
		}
	}
	for _, e := range s.MatchExpressions {
		if e.Key != kinds.NamespaceLabel {
			only = false
		} else if e.Operator == "In" {
			names = append(names, e.Values...)
		}
	}
	return names, only
}

// matches reports whether a selector picks a namespace with these labels.
func (s *selectorSpec) matches(labels map[string]string) bool {
	if !kinds.LabelsWithin(s.MatchLabels, labels) {
		return false
	}
	for _, e := range s.MatchExpressions {
		value, has := labels[e.Key]
		holds := false
		switch e.Operator {
		case "In":
			holds = has && slices.Contains(e.Values, value)
		case "NotIn":
			holds = !has || !slices.Contains(e.Values, value)
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

// include reports whether the namespace of a resource is among them.
func (n namespaces) include(r *kinds.Resource) bool {
	return n.all || slices.Contains(n.only, r.Namespace) || n.choose != nil && n.choose.matches(r.NamespaceLabels())
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
