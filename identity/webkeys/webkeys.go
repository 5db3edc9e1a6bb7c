// Package webkeys reads JSON Web Key Sets (RFC 7517) as Envoy does.
//
// Envoy refuses a whole listener for a key set without a usable key, and skips single keys that it
// cannot use. So this package returns either a document that Envoy accepts or an error. Where Envoy
// is more lenient than it should be (numbers with spaces, duplicate members), it rewrites the
// document.
package webkeys

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// Nobodys is a set of one key of which nobody has the private half, so that no token is signed with
// it: what Envoy is given in the place of keys that are not to be had, for it has to be given some.
// It is the point of the curve P-256 of which x is the first SHA-256 hash of "pgmesh: nobody has
// the private half of this key N", for N from 0 on, that is the x of a point, and of which y is
// even. Whoever knew its private half could take discrete logarithms on that curve.
const Nobodys = `{"keys":[{"alg":"ES256","crv":"P-256","kty":"EC","x":"ZRA-JMJh7IHAuRT6miMupZieckuojKi038JG3sySvGU","y":"xZbkXEdOuvf5WZgpFAICjYywl-gPPCItL9KerJdhjGA"}]}`

// Set is a document that Envoy accepts.
type Set struct {
	// Text is the document as it was written, if Envoy can use every key in it and nothing in it is
	// private. Otherwise it has only the public parts of the usable keys.
	Text string
	// Unusable has a reason for each key that was left out.
	Unusable []string

	keys []string // each as JSON, without repetitions, sorted
}

// Keys returns the number of different keys.
func (s *Set) Keys() int { return len(s.keys) }

// Canonical returns the document in a form that depends only on the keys, not on their order or on
// other members.
func (s *Set) Canonical() string { return `{"keys":[` + strings.Join(s.keys, ",") + `]}` }

// maxKeys bounds how many keys Envoy may have to try for one token.
const maxKeys = 1000

// maxDepth is the deepest nesting of a document that is passed on unchanged. Envoy's own limit is
// 100.
const maxDepth = 20

// Read reads a set of keys or a single key. It fails if Envoy can use none of them.
func Read(document string) (*Set, error) {
	var top structpb.Struct
	if err := protojson.Unmarshal([]byte(document), &top); err != nil {
		return nil, errors.New("it is no JSON object, or one that is not well-formed")
	}
	list, asWritten := top.GetFields()["keys"], true
	if _, single := top.GetFields()["kty"]; single && list == nil {
		list, asWritten = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewStructValue(&top)}}), false
	}
	if list.GetListValue() == nil {
		return nil, errors.New(`it has no list of "keys"`)
	}
	s := &Set{}
	for i, item := range list.GetListValue().GetValues() {
		asWritten = s.add(i, item) && asWritten
	}
	slices.Sort(s.keys)
	s.keys = slices.Compact(s.keys)
	if len(s.keys) == 0 {
		return nil, fmt.Errorf("it has no key that can be used: %s", orNone(s.Unusable))
	}
	if len(s.keys) > maxKeys {
		return nil, fmt.Errorf("it has %d keys, and may have %d", len(s.keys), maxKeys)
	}
	s.Text = s.Canonical()
	if asWritten && depth(structpb.NewStructValue(&top)) <= maxDepth {
		s.Text = document
	}
	return s, nil
}

func orNone(unusable []string) string {
	const shown = 3
	switch {
	case len(unusable) == 0:
		return "the list is empty"
	case len(unusable) > shown:
		return strings.Join(unusable[:shown], "; ") + fmt.Sprintf("; and %d more", len(unusable)-shown)
	default:
		return strings.Join(unusable, "; ")
	}
}

// add adds a key if Envoy can use it, and reports whether the key may stay as it was written.
func (s *Set) add(i int, item *structpb.Value) (asWritten bool) {
	fields := item.GetStructValue().GetFields()
	k, err := readKey(fields)
	if err != nil {
		s.Unusable = append(s.Unusable, fmt.Sprintf("keys[%d] %v", i, err))
		return false
	}
	text, err := json.Marshal(k)
	if err != nil {
		panic("write a map of strings: " + err.Error())
	}
	s.keys = append(s.keys, string(text))
	for name, member := range k {
		if fields[name].GetStringValue() != member {
			return false
		}
	}
	return !slices.ContainsFunc(private, func(name string) bool { return fields[name] != nil })
}

// private are the secret members of a key, except k of a symmetric key, which is the whole key.
var private = []string{"d", "p", "q", "dp", "dq", "qi", "oth"}

func depth(v *structpb.Value) int {
	deepest := 0
	for _, member := range v.GetStructValue().GetFields() {
		deepest = max(deepest, depth(member))
	}
	for _, item := range v.GetListValue().GetValues() {
		deepest = max(deepest, depth(item))
	}
	return deepest + 1
}
