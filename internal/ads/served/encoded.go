package served

import (
	"unique"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// Field numbers of a delta resource, and of the body in it. Both forms of a response have their
// resources under the same number as a delta resource has its body, so one encoding of a body
// serves both.
const (
	resourcesField                                                                 = 2 // of both forms of a response
	resourceVersionField, resourceBodyField, resourceNameField, resourceAliasField = 1, resourcesField, 3, 4
	anyTypeField, anyValueField                                                    = 1, 2
)

// Encoded is a resource in its wire format. The body's value is in memory only once, however many
// clients are sent it.
type Encoded struct {
	Delta []byte // an element of a delta response, without the body's value unless Whole
	SotW  int    // where in Delta the element of a state-of-the-world response begins
	Whole bool   // Delta includes the body's value
}

// NewResource returns a resource that takes the least memory: it is encoded at once, and its name,
// version and body value are slices of that encoding.
func NewResource(name, version string, body *anypb.Any) *Resource {
	r := &struct {
		Resource

		body    anypb.Any
		encoded Encoded
	}{Resource: Resource{Name: name, Version: version}}
	r.Body = &r.body
	r.body.TypeUrl, r.body.Value = unique.Make(body.GetTypeUrl()).Value(), body.GetValue()
	r.encoded = encode(&r.Resource, true, nil)
	r.body.Value = r.encoded.Delta[len(r.encoded.Delta)-len(body.GetValue()):]
	endOfName := r.encoded.Delta[:r.encoded.SotW]
	endOfVersion := endOfName[:len(endOfName)-sizeOf(resourceNameField, len(name))]
	r.Name, r.Version = last(endOfName, len(name)), last(endOfVersion, len(version))
	r.encodes.Store(&r.encoded)
	return &r.Resource
}

// NewAnswer returns a resource for a client that asked for it by aliases, and lists the aliases.
// The version must also stand for the aliases. Without a body it says that there is nothing of
// these names.
func NewAnswer(name, version string, body *anypb.Any, aliases []string) *Resource {
	r := &Resource{Name: name, Version: version, Body: body}
	e := encode(r, false, aliases)
	r.encodes.Store(&e)
	return r
}

// last returns the last n bytes as a string without copying: served bytes are never changed, and
// copies of names and versions would add a tenth to them.
func last(b []byte, n int) string { return unsafe.String(unsafe.SliceData(b[len(b)-n:]), n) }

// Encoding returns the encoded form of a resource. The first stream that is sent the resource
// creates it.
func (r *Resource) Encoding() *Encoded {
	if e := r.encodes.Load(); e != nil {
		return e
	}
	e := encode(r, false, nil)
	r.encodes.CompareAndSwap(nil, &e) // fails if another stream was faster
	return r.encodes.Load()
}

func encode(r *Resource, whole bool, aliases []string) Encoded {
	value := len(r.Body.GetValue())
	body := sizeOf(anyTypeField, len(r.Body.GetTypeUrl())) + sizeOf(anyValueField, value)
	element := sizeOf(resourceVersionField, len(r.Version)) + sizeOf(resourceNameField, len(r.Name))
	for _, alias := range aliases {
		element += sizeOf(resourceAliasField, len(alias))
	}
	if r.Body != nil {
		element += sizeOf(resourceBodyField, body)
	}
	size := sizeOf(resourcesField, element)
	if !whole {
		size -= value
	}
	b := make([]byte, 0, size)
	b = appendBegin(b, resourcesField, element)
	for _, alias := range aliases {
		b = appendString(b, resourceAliasField, alias)
	}
	b = appendString(b, resourceVersionField, r.Version)
	b = appendString(b, resourceNameField, r.Name)
	element = len(b)
	if r.Body == nil {
		return Encoded{Delta: b, SotW: element, Whole: true}
	}
	b = appendBegin(b, resourceBodyField, body)
	b = appendString(b, anyTypeField, r.Body.GetTypeUrl())
	b = appendBegin(b, anyValueField, value)
	if whole {
		b = append(b, r.Body.GetValue()...)
	}
	return Encoded{Delta: b, SotW: element, Whole: whole}
}

// Size returns how many bytes a resource takes in a delta response.
func (r *Resource) Size() int {
	e := r.Encoding()
	if e.Whole {
		return len(e.Delta)
	}
	return len(e.Delta) + len(r.Body.GetValue())
}

func sizeOf(field protowire.Number, length int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(length)
}

// appendBegin appends the tag and length of a field with this many bytes.
func appendBegin(b []byte, field protowire.Number, length int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(length))
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return append(appendBegin(b, field, len(s)), s...)
}
