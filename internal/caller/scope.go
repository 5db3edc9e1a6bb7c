package caller

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// Verb is an action that a scope allows.
type Verb string

// Each verb includes the ones before it.
const (
	Read  Verb = "read"
	Write Verb = "write"
	Admin Verb = "admin" // write everything, and decide who else may; there are no administrators of a part
)

// These are separate: of the other verbs only Admin includes them.
const (
	// Secrets allows reading secrets and, together with Write, changing them.
	Secrets Verb = "secrets"
	// Sign lets a caller, usually a discovery, request an authority's certificate from the mesh's
	// root.
	Sign Verb = "sign"
	// Register lets a caller, usually a discovery, report which machines there are.
	Register Verb = "register"
)

// noNamespace is how people write "no namespace", which is "" in the database.
const noNamespace = "-"

// Scope allows a verb on a part of the mesh. It is written as VERB, VERB:NAMESPACES or
// VERB:NAMESPACES:KINDS.
type Scope struct {
	Verb       Verb
	Namespaces []string      // empty means all; "" is no namespace
	Kinds      []*kinds.Kind // all if there is none
}

// Everything allows everything.
var Everything = Scope{Verb: Admin}

// ParseScope parses a scope: "read", "write:shop,cart", "write:shop:vs,dr", "read:*:gateways",
// "write:-" or "admin".
func ParseScope(text string) (Scope, error) {
	s, err := parseScope(text)
	if err != nil {
		return Scope{}, fmt.Errorf("scope %q: %w", text, err)
	}
	return s, nil
}

func parseScope(text string) (Scope, error) {
	parts := strings.Split(text, ":")
	s := Scope{Verb: Verb(parts[0])}
	if !slices.Contains([]Verb{Read, Write, Secrets, Sign, Register, Admin}, s.Verb) {
		return s, fmt.Errorf("%q is not what one may do; write read, write, secrets, sign, register or admin, then perhaps :NAMESPACES and :KINDS, such as write:shop:virtualservices", parts[0])
	}
	if s.Verb == Secrets && len(parts) > 2 {
		return s, errors.New("secrets are a kind by themselves; write secrets:NAMESPACES")
	}
	if len(parts) > 3 {
		return s, errors.New("there is something after the kinds; write VERB:NAMESPACES:KINDS")
	}
	if s.Verb == Sign && len(parts) > 1 {
		return s, errors.New("who signs certificates does so for the whole mesh; write sign alone")
	}
	if s.Verb == Register && len(parts) > 1 {
		return s, errors.New("who registers machines does so for the whole mesh; write register alone")
	}
	if s.Verb == Admin && len(parts) > 1 {
		return s, fmt.Errorf("an administrator is one of the whole mesh; write admin alone, or write:%s", strings.Join(parts[1:], ":"))
	}
	var err error
	if len(parts) > 1 {
		if s.Namespaces, err = parseNamespaces(parts[1]); err != nil {
			return s, err
		}
	}
	if len(parts) > 2 {
		s.Kinds, err = ParseKinds(parts[2])
	}
	return s, err
}

func parseNamespaces(list string) ([]string, error) {
	if list == "*" {
		return nil, nil
	}
	var namespaces []string
	for name := range strings.SplitSeq(list, ",") {
		if name == noNamespace {
			namespaces = append(namespaces, "")
			continue
		}
		if !kinds.ValidNamespace(name) {
			return nil, fmt.Errorf("%q is not a namespace; write names with commas between them, %s for what belongs to none, or * alone for all", name, noNamespace)
		}
		namespaces = append(namespaces, name)
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), nil
}

// ParseKinds parses "*" or a comma-separated list of kinds. Nil means all.
func ParseKinds(list string) ([]*kinds.Kind, error) {
	if list == "*" {
		return nil, nil
	}
	var found []*kinds.Kind
	for word := range strings.SplitSeq(list, ",") {
		k, err := kinds.ByName(word)
		if err != nil {
			return nil, err
		}
		found = append(found, k)
	}
	slices.SortFunc(found, func(a, b *kinds.Kind) int { return strings.Compare(KindWord(a), KindWord(b)) })
	return slices.Compact(found), nil
}

// KindWord returns the shortest unambiguous name of a kind: "VirtualService",
// "Gateway.gateway.networking.k8s.io".
func KindWord(k *kinds.Kind) string {
	if meant, err := kinds.ByName(k.Name); err == nil && meant == k {
		return k.Name
	}
	return k.Name + "." + k.Group
}

// String returns the canonical form of the scope, which ParseScope parses.
func (s Scope) String() string {
	text := string(s.Verb)
	if s.Namespaces == nil && s.Kinds == nil {
		return text
	}
	names := make([]string, len(s.Namespaces))
	for i, n := range s.Namespaces {
		if names[i] = n; n == "" {
			names[i] = noNamespace
		}
	}
	text += ":" + orAll(names)
	if s.Kinds == nil {
		return text
	}
	words := make([]string, len(s.Kinds))
	for i, k := range s.Kinds {
		words[i] = KindWord(k)
	}
	return text + ":" + orAll(words)
}

func orAll(list []string) string {
	if len(list) == 0 {
		return "*"
	}
	return strings.Join(list, ",")
}

// Allows reports whether the scope allows doing v to resources of a kind in a namespace. What
// belongs to no namespace and what configures the whole mesh concerns everyone: whoever may read
// its kind may read it. Only a scope for all namespaces may change the MeshConfig.
func (s Scope) Allows(v Verb, namespace string, k *kinds.Kind) bool {
	if !s.Verb.includes(v) || s.Kinds != nil && !slices.Contains(s.Kinds, k) {
		return false
	}
	if s.Namespaces == nil || v == Read && (namespace == "" || k.Bare) {
		return true
	}
	return !k.Bare && slices.Contains(s.Namespaces, namespace)
}

func (v Verb) includes(other Verb) bool {
	if separate := []Verb{Secrets, Sign, Register}; slices.Contains(separate, v) || slices.Contains(separate, other) {
		return v == other || v == Admin
	}
	order := []Verb{Read, Write, Admin}
	return slices.Index(order, v) >= slices.Index(order, other)
}

// ParseScopes parses scopes, of which there must be at least one.
func ParseScopes(texts []string) ([]Scope, error) {
	if len(texts) == 0 {
		return nil, errors.New("there is no scope; write what may be done: read, write:shop, secrets:shop or admin")
	}
	scopes := make([]Scope, len(texts))
	for i, text := range texts {
		var err error
		if scopes[i], err = ParseScope(text); err != nil {
			return nil, err
		}
	}
	return scopes, nil
}

// Texts returns scopes in their canonical form.
func Texts(scopes []Scope) []string {
	texts := make([]string, len(scopes))
	for i, s := range scopes {
		texts[i] = s.String()
	}
	return texts
}
