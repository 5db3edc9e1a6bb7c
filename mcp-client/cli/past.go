package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/internal/terminal"
	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// scoped is what arguments, --kind and -n narrow a command about the past to, as its requests have it: kinds, namespaces and names,
// of which there may be none.
type scoped struct {
	query      []wanted
	kinds      []string
	namespaces []string
	names      []string
}

// scoped reads arguments as get takes them. Without any, all kinds are meant, in all namespaces unless -n says otherwise.
func (p *Program) scoped(args []string, only scope) (scoped, error) {
	s := scoped{namespaces: p.namespaces()}
	ks, err := only.kinds()
	if err != nil {
		return s, err
	}
	if len(only.words) > 0 {
		s.kinds = kindWords(ks)
	}
	if len(args) == 0 {
		return s, nil
	}
	if s.query, err = parseWanted(args); err != nil {
		return s, &usageError{err: err}
	}
	s.kinds, s.namespaces = nil, nil
	for _, w := range s.query {
		s.kinds = append(s.kinds, kindWords([]*kinds.Kind{w.kind})...)
		if w.name != "" {
			s.names = append(s.names, w.name)
		}
		if space := w.in(p.namespace).Namespace; !p.namespace.all || w.namespace != "" {
			s.namespaces = append(s.namespaces, requestedNamespace(space))
		}
	}
	s.kinds, s.namespaces, s.names = distinct(s.kinds), distinct(s.namespaces), distinct(s.names)
	return s, nil
}

// requestedNamespace is how requests write that of kinds that have none.
func requestedNamespace(namespace string) string {
	if namespace == "" {
		return "-"
	}
	return namespace
}

// holds tells whether a resource is meant. Requests name sets, and so may bring more.
func (s scoped) holds(p *Program, r *adminv1.ResourceRef) bool {
	if len(s.query) == 0 {
		return true
	}
	kind, known := kinds.Lookup(r.GetGroup(), r.GetKind())
	key := kinds.Key{Kind: kind, Namespace: r.GetNamespace(), Name: r.GetName()}
	return known && slices.ContainsFunc(s.query, func(w wanted) bool { return p.namespace.holds(w, key) })
}

// documentText is a resource of the past as people write it, "" for none.
func documentText(sent *adminv1.Resource) (string, error) {
	if sent == nil {
		return "", nil
	}
	d, err := documentOf(sent)
	if err != nil {
		return "", err
	}
	text, err := d.YAML()
	return string(text), err
}

// documentOf is a resource as the server has it stored, zero values included. Its message is left empty: what the past has need not
// be valid today.
func documentOf(sent *adminv1.Resource) (*kinds.Document, error) {
	m := sent.GetMetadata()
	kind, err := kinds.ByAPIVersion(sent.GetApiVersion(), sent.GetKind())
	if err != nil {
		return nil, fmt.Errorf("the server sent what this program does not know: %w: use a newer one", err)
	}
	spec, err := protojson.Marshal(sent.GetSpec())
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", kind, m.GetName(), err)
	}
	r := &kinds.Resource{Kind: kind, Namespace: m.GetNamespace(), Name: m.GetName(), Labels: m.GetLabels(), Annotations: m.GetAnnotations()}
	if t := m.GetCreationTimestamp(); t != nil {
		r.CreateTime = t.AsTime()
	}
	return &kinds.Document{Resource: r, Spec: json.RawMessage(spec)}, nil
}

// madeBy is who did something, and with what.
func madeBy(author, application string) string {
	return terminal.Line(strings.TrimSpace(orDash(author) + " " + bracketed(application)))
}

func bracketed(text string) string {
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}
