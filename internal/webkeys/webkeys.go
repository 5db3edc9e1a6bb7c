// Package webkeys reads JSON Web Key Sets (RFC 7517) as Envoy does.
//
// Envoy refuses a listener whole for a set that has no key which it can use, and passes over single keys that it cannot use. So what is read
// here is either a document that Envoy takes, or an error: nothing in between reaches a proxy. Where Envoy is more lenient than a document
// deserves (numbers that are written with spaces, members that are there twice), the document is written anew.
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

// Nobodys is a set of one key of which nobody has the private half, so that no token is signed with it: what Envoy is given in the place of
// keys that are not to be had, for it has to be given some. It is the point of the curve P-256 of which x is the first SHA-256 hash of
// "pgmesh: nobody has the private half of this key N", for N from 0 on, that is the x of a point, and of which y is even. Whoever knew its
// private half could take discrete logarithms on that curve.
const Nobodys = `{"keys":[{"alg":"ES256","crv":"P-256","kty":"EC","x":"ZRA-JMJh7IHAuRT6miMupZieckuojKi038JG3sySvGU","y":"xZbkXEdOuvf5WZgpFAICjYywl-gPPCItL9KerJdhjGA"}]}`

// Set is a document that Envoy takes.
type Set struct {
	// Text is the document as it was written, where Envoy can use all that is in it and nothing of it is private, else with those keys only
	// that it can use, and of those what is public.
	Text string
	// Unusable tells of each key that was left out.
	Unusable []string

	keys []string // each as JSON, without repetitions, sorted
}

// Keys is how many different ones there are.
func (s *Set) Keys() int { return len(s.keys) }

// Canonical is the document in a form that depends on nothing but the keys: not on their order, nor on what else is said of them.
func (s *Set) Canonical() string { return `{"keys":[` + strings.Join(s.keys, ",") + `]}` }

// maxKeys bounds how many Envoy may have to try for one token.
const maxKeys = 1000

// maxDepth is how deep a document may be that is passed on as it is; Envoy reads no deeper than 100.
const maxDepth = 20

// Read reads a set of keys, or a single key. It is an error if there is none that Envoy can use.
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

// add takes a key in, if Envoy can use it, and tells whether it may stay as it was written.
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

// private are the members of a key that are nobody's business but its owner's. That of a symmetric key is all there is of it.
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
