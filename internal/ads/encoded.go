package ads

import (
	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of fields in the protocol's messages. Both forms of a response have their resources under the number under which a delta
// resource has its body: so one encoding of a body serves both.
const (
	versionField, resourcesField, typeURLField, nonceField = 1, 2, 4, 5 // of both forms of a response
	removedField, deltaControlField, sotwControlField      = 6, 7, 6
	identifierField                                        = 1 // of a control plane

	resourceVersionField, resourceBodyField, resourceNameField = 1, resourcesField, 3 // of a delta resource
	anyTypeField, anyValueField                                = 1, 2
)

// encoded is a resource as responses carry it, but for the value of its body, which follows: that is in memory once, whoever is sent it.
type encoded struct {
	delta []byte // as an element of a delta response
	sotw  []byte // the end of that: as an element of a state of the world
}

// encoding returns the encoded form of a resource, which is made when the first stream is sent it.
func (r *Resource) encoding() *encoded {
	if e := r.encodes.Load(); e != nil {
		return e
	}
	r.encodes.CompareAndSwap(nil, encode(r)) // or another stream was faster
	return r.encodes.Load()
}

func encode(r *Resource) *encoded {
	value := len(r.Body.GetValue())
	body := sizeOf(anyTypeField, len(r.Body.GetTypeUrl())) + sizeOf(anyValueField, value)
	element := sizeOf(resourceVersionField, len(r.Version)) + sizeOf(resourceNameField, len(r.Name)) + sizeOf(resourceBodyField, body)
	b := make([]byte, 0, sizeOf(resourcesField, element)-value)
	b = appendBegin(b, resourcesField, element)
	b = appendString(b, resourceVersionField, r.Version)
	b = appendString(b, resourceNameField, r.Name)
	element = len(b)
	b = appendBegin(b, resourceBodyField, body)
	b = appendString(b, anyTypeField, r.Body.GetTypeUrl())
	b = appendBegin(b, anyValueField, value)
	return &encoded{delta: b, sotw: b[element:]}
}

// size is how many bytes a resource is of a delta response.
func (r *Resource) size() int { return len(r.encoding().delta) + len(r.Body.GetValue()) }

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
