package history

import (
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// scoped is what arguments, --kind and -n restrict a command about the past to. Requests have it as
// sets of kinds, namespaces and names, each of which may be empty.
type scoped struct {
	query      []arguments.Wanted
	kinds      []string
	namespaces []string
	names      []string
}

// scoped parses arguments like get. Without any it covers all kinds, in all namespaces unless -n
// names one.
func (p program) scoped(args []string, only arguments.Scope) (scoped, error) {
	s := scoped{namespaces: p.Namespace.Requested()}
	var err error
	if s.kinds, err = only.Requested(); err != nil || len(args) == 0 {
		return s, err
	}
	if s.query, err = arguments.Parse(args); err != nil {
		return s, failure.Usage(nil, err)
	}
	s.kinds, s.namespaces = nil, nil
	for _, w := range s.query {
		s.kinds = append(s.kinds, arguments.FullNames([]*kinds.Kind{w.Kind})...)
		if w.Name != "" {
			s.names = append(s.names, w.Name)
		}
		if space := w.In(p.Namespace).Namespace; !p.Namespace.All || w.Namespace != "" {
			s.namespaces = append(s.namespaces, requestedNamespace(space))
		}
	}
	s.kinds, s.namespaces, s.names = arguments.Distinct(s.kinds), arguments.Distinct(s.namespaces), arguments.Distinct(s.names)
	return s, nil
}

// requestedNamespace returns how requests write the namespace of resources that have none.
func requestedNamespace(namespace string) string {
	if namespace == "" {
		return "-"
	}
	return namespace
}

// holds reports whether a resource matches. Requests name sets, so the answer may have more than
// the query.
func (s scoped) holds(p program, r *adminv1.ResourceRef) bool {
	if len(s.query) == 0 {
		return true
	}
	kind, known := kinds.Lookup(r.GetGroup(), r.GetKind())
	key := kinds.Key{Kind: kind, Namespace: r.GetNamespace(), Name: r.GetName()}
	return known && slices.ContainsFunc(s.query, func(w arguments.Wanted) bool { return p.Namespace.Holds(w, key) })
}

// DocumentText formats a past resource, "" for none.
func DocumentText(sent *adminv1.Resource) (string, error) {
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

// documentOf returns a resource as the server stored it, including zero values. It does not decode
// the spec's message: an old resource may be invalid today.
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
