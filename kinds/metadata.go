package kinds

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds/schema"
)

// The syntax of namespaces and labels is that of Kubernetes, whose users' files we read: RFC 1123.
// Namespaces are lower case because they are part of host names. Names may have upper-case letters
// and underscores: files and servers other than Kubernetes' use them.
var (
	dnsLabel     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	dnsSubdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	qualified    = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`)
)

const (
	nameHint       = `at most 253 letters, digits, "-", "_" and ".", the first and the last a letter or digit`
	namespaceHint  = `at most 63 lower-case letters, digits and "-", the first and the last a letter or digit`
	labelKeyHint   = `write it as "name" or "example.com/name"; the name has at most 63 letters, digits, "-", "_" and ".", the first and the last a letter or digit`
	labelValueHint = `at most 63 letters, digits, "-", "_" and ".", the first and the last a letter or digit`

	maxAnnotations = 256 << 10 // bytes of keys and values together, the limit of Kubernetes
)

// ValidNamespace reports whether a namespace can have this name.
func ValidNamespace(name string) bool { return len(name) <= 63 && dnsLabel.MatchString(name) }

// ValidLabel reports whether a resource can have this label.
func ValidLabel(key, value string) bool {
	m := metadataCheck{r: &Resource{Kind: registry[0]}}
	m.label(key, value)
	return len(m.violations) == 0
}

func validName(name string) bool { return len(name) <= 253 && qualified.MatchString(name) }

// CheckMetadata returns what is wrong with the namespace, name, labels and annotations of a
// resource. It ignores the spec.
func CheckMetadata(r *Resource) []Violation {
	m := metadataCheck{r: r}
	m.names()
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		m.label(key, r.Labels[key])
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(r.Annotations)) {
		m.key("metadata.annotations", key, "annotation")
		size += len(key) + len(r.Annotations[key])
	}
	if size > maxAnnotations {
		m.add("metadata.annotations", fmt.Sprintf("must be at most %d bytes long, is %d", maxAnnotations, size), "")
	}
	return m.violations
}

type metadataCheck struct {
	r          *Resource
	violations []Violation
}

func (m *metadataCheck) add(path, reason, hint string) {
	m.violations = append(m.violations, Violation{
		Kind: m.r.Kind.Name, Namespace: m.r.Namespace, Name: m.r.Name, Path: path, Reason: reason, Hint: hint,
	})
}

func (m *metadataCheck) names() {
	switch r := m.r; {
	case r.Name == "":
		m.add("metadata.name", "must not be empty", "")
	case !validName(r.Name):
		m.add("metadata.name", `"`+r.Name+`" is not a valid name`, nameHint)
	}
	switch r := m.r; {
	case r.Kind.Bare && r.Namespace != MeshNamespace:
		m.add("metadata.namespace", fmt.Sprintf("a %s configures the whole mesh, and counts in the namespace %q alone", r.Kind.Name, MeshNamespace), "write "+MeshNamespace)
	case !r.Kind.Namespaced && r.Namespace != "":
		m.add("metadata.namespace", "a "+r.Kind.Name+" has no namespace", "remove the namespace")
	case r.Kind.Namespaced && r.Namespace == "":
		m.add("metadata.namespace", "must not be empty", "")
	case r.Kind.Namespaced && !ValidNamespace(r.Namespace):
		m.add("metadata.namespace", `"`+r.Namespace+`" is not a valid namespace`, namespaceHint)
	}
}

func (m *metadataCheck) label(key, value string) {
	m.key("metadata.labels", key, "label")
	if value != "" && (len(value) > 63 || !qualified.MatchString(value)) {
		m.add(schema.Member("metadata.labels", key), `"`+value+`" is not a valid label value`, labelValueHint)
	}
}

// key checks the key of a label or an annotation.
func (m *metadataCheck) key(path, key, of string) {
	prefix, name, found := strings.Cut(key, "/")
	if !found {
		prefix, name = "", key
	}
	soundPrefix := !found || len(prefix) <= 253 && dnsSubdomain.MatchString(prefix)
	if !soundPrefix || len(name) > 63 || !qualified.MatchString(name) {
		m.add(schema.Member(path, key), `"`+key+`" is not a valid `+of+` key`, labelKeyHint)
	}
}
