package readers

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	mcp "istio.io/api/mcp/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store/identity/callers"
)

// row is a parsed row of mesh.readers.
type row struct {
	identity caller.Pattern
	scope    caller.Scope
	labels   selector.Selector
	text     string // equal for rows that show the same
}

func parse(r callers.Reader) (row, error) {
	parsed := row{scope: caller.Scope{Verb: caller.Read}}
	var err error
	if parsed.identity, err = caller.ParsePattern(r.Identity); err != nil {
		return row{}, err
	}
	if !slices.Contains(r.Namespaces, "*") {
		parsed.scope.Namespaces = slices.Sorted(slices.Values(r.Namespaces))
	}
	if parsed.scope.Kinds, err = caller.ParseKinds(strings.Join(r.Kinds, ",")); err != nil {
		return row{}, err
	}
	if parsed.labels, err = selector.Parse(r.Labels); err != nil {
		return row{}, err
	}
	parsed.text = parsed.scope.String() + " " + r.Labels
	return parsed, nil
}

// filter is what a reader is shown: what its scopes let it read and, if restricted, only what the
// rows show.
type filter struct {
	scopes     []caller.Scope
	secrets    []caller.Scope // secrets of their namespaces are shown
	rows       []row
	restricted bool
}

// showsEverything reports whether the filter hides nothing.
func (f *filter) showsEverything() bool {
	return slices.ContainsFunc(f.scopes, unlimited) && (len(f.secrets) == 0 || slices.ContainsFunc(f.secrets, unlimited)) &&
		(!f.restricted || slices.ContainsFunc(f.rows, func(r row) bool { return unlimited(r.scope) && r.labels == nil }))
}

func unlimited(s caller.Scope) bool { return s.Namespaces == nil && s.Kinds == nil }

// key is equal for filters that show the same.
func (f *filter) key() string {
	texts := slices.Concat([]string{"may"}, sortedUnique(caller.Texts(f.scopes)))
	if len(f.secrets) > 0 {
		texts = slices.Concat(texts, []string{"secrets of"}, sortedUnique(caller.Texts(f.secrets)))
	}
	if f.restricted {
		var rows []string
		for _, r := range f.rows {
			rows = append(rows, r.text)
		}
		texts = slices.Concat(texts, []string{"shown"}, sortedUnique(rows))
	}
	return strings.Join(texts, "\n")
}

func sortedUnique(texts []string) []string {
	slices.Sort(texts)
	return slices.Compact(texts)
}

// digest is a short hash of the key, the same on every server.
func (f *filter) digest() string {
	sum := sha256.Sum256([]byte(f.key()))
	return hex.EncodeToString(sum[:4])
}

// showsKind reports whether all resources of a kind are shown, or none.
func (f *filter) showsKind(k *kinds.Kind) (all, none bool) {
	about := func(s caller.Scope) bool { return s.Kinds == nil || slices.Contains(s.Kinds, k) }
	may := slices.DeleteFunc(slices.Clone(f.scopes), func(s caller.Scope) bool { return !about(s) })
	all = slices.ContainsFunc(may, func(s caller.Scope) bool { return s.Namespaces == nil })
	if !f.restricted {
		return all, len(may) == 0
	}
	rows := slices.DeleteFunc(slices.Clone(f.rows), func(r row) bool { return !about(r.scope) })
	all = all && slices.ContainsFunc(rows, func(r row) bool { return r.scope.Namespaces == nil && r.labels == nil })
	return all, len(may) == 0 || len(rows) == 0
}

// shows reports whether a resource is shown. Resources without a namespace need not match labels,
// because they concern everybody.
func (f *filter) shows(k *kinds.Kind, r *served.Resource) bool {
	namespace, _, found := strings.Cut(r.Name, "/")
	if !found {
		namespace = ""
	}
	if !slices.ContainsFunc(f.scopes, func(s caller.Scope) bool { return s.Allows(caller.Read, namespace, k) }) {
		return false
	}
	if !f.restricted {
		return true
	}
	var labels map[string]string
	read := false
	return slices.ContainsFunc(f.rows, func(w row) bool {
		if !w.scope.Allows(caller.Read, namespace, k) {
			return false
		}
		if w.labels == nil || namespace == "" || k.Bare {
			return true
		}
		if !read {
			labels, read = labelsOf(r), true
		}
		return w.labels.Matches(labels)
	})
}

// showsSecret reports whether a secret is shown. Rows that name kinds show no secrets.
func (f *filter) showsSecret(r *served.Resource) bool {
	namespace, _, _ := strings.Cut(r.Name, "/")
	if !slices.ContainsFunc(f.secrets, func(s caller.Scope) bool { return s.Namespaces == nil || slices.Contains(s.Namespaces, namespace) }) {
		return false
	}
	return !f.restricted || slices.ContainsFunc(f.rows, func(w row) bool {
		return w.scope.Kinds == nil && (w.scope.Namespaces == nil || slices.Contains(w.scope.Namespaces, namespace)) &&
			(w.labels == nil || w.labels.Matches(labelsOf(r)))
	})
}

// labelsOf reads the labels in a resource's envelope, without decoding its body.
func labelsOf(r *served.Resource) map[string]string {
	envelope := &mcp.Resource{}
	if err := proto.Unmarshal(r.Body.GetValue(), envelope); err != nil {
		return nil
	}
	return envelope.GetMetadata().GetLabels()
}
