package ads

import (
	"unique"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/anypb"
)

// The numbers of fields in the protocol's messages. Both forms of a response have their resources under the number under which a delta
// resource has its body: so one encoding of a body serves both.
const (
	versionField, resourcesField, typeURLField, nonceField = 1, 2, 4, 5 // of both forms of a response
	removedField, deltaControlField, sotwControlField      = 6, 7, 6
	identifierField                                        = 1 // of a control plane

	resourceVersionField, resourceBodyField, resourceNameField, resourceAliasField = 1, resourcesField, 3, 4 // of a delta resource
	anyTypeField, anyValueField                                                    = 1, 2
)

// encoded is a resource as responses carry it, up to the value of its body: that is in memory once, whoever is sent it.
type encoded struct {
	delta []byte // as an element of a delta response
	sotw  int    // where that begins to be an element of a state of the world
	whole bool   // the value is the end of it
}

// NewResource makes a resource that takes the least memory there: everything that responses carry of it is encoded at once, in one piece,
// of which its name, its version and the value of its body are parts.
func NewResource(name, version string, body *anypb.Any) *Resource {
	r := &struct {
		Resource

		body    anypb.Any
		encoded encoded
	}{Resource: Resource{Name: name, Version: version}}
	r.Body = &r.body
	r.body.TypeUrl, r.body.Value = unique.Make(body.GetTypeUrl()).Value(), body.GetValue()
	r.encoded = encode(&r.Resource, true, nil)
	r.body.Value = r.encoded.delta[len(r.encoded.delta)-len(body.GetValue()):]
	endOfName := r.encoded.delta[:r.encoded.sotw]
	endOfVersion := endOfName[:len(endOfName)-sizeOf(resourceNameField, len(name))]
	r.Name, r.Version = last(endOfName, len(name)), last(endOfVersion, len(version))
	r.encodes.Store(&r.encoded)
	return &r.Resource
}

// NewAnswer makes a resource for a client that has asked by other names for it, and is told of which of them it is. Those names are a part
// of what the version stands for. Without a body it tells that there is nothing of these names.
func NewAnswer(name, version string, body *anypb.Any, aliases []string) *Resource {
	r := &Resource{Name: name, Version: version, Body: body}
	e := encode(r, false, aliases)
	r.encodes.Store(&e)
	return r
}

// last is the end of bytes, of which it is no copy: nobody ever changes what is served, and copies of names and versions would be a tenth of it.
func last(b []byte, n int) string { return unsafe.String(unsafe.SliceData(b[len(b)-n:]), n) }

// encoding returns the encoded form of a resource, which is made when the first stream is sent it.
func (r *Resource) encoding() *encoded {
	if e := r.encodes.Load(); e != nil {
		return e
	}
	e := encode(r, false, nil)
	r.encodes.CompareAndSwap(nil, &e) // or another stream was faster
	return r.encodes.Load()
}

func encode(r *Resource, whole bool, aliases []string) encoded {
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
		return encoded{delta: b, sotw: element, whole: true}
	}
	b = appendBegin(b, resourceBodyField, body)
	b = appendString(b, anyTypeField, r.Body.GetTypeUrl())
	b = appendBegin(b, anyValueField, value)
	if whole {
		b = append(b, r.Body.GetValue()...)
	}
	return encoded{delta: b, sotw: element, whole: whole}
}

// size is how many bytes a resource is of a delta response.
func (r *Resource) size() int {
	e := r.encoding()
	if e.whole {
		return len(e.delta)
	}
	return len(e.delta) + len(r.Body.GetValue())
}

func sizeOf(field protowire.Number, length int) int {
	return protowire.SizeTag(field) + protowire.SizeBytes(length)
}

// appendBegin begins a field of so many bytes.
func appendBegin(b []byte, field protowire.Number, length int) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.BytesType), uint64(length))
}

func appendString(b []byte, field protowire.Number, s string) []byte {
	return append(appendBegin(b, field, len(s)), s...)
}
