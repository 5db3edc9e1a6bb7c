package lastgood

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// A record is a head, by which it is found again after others that are broken, and a payload with a checksum of its own.
const (
	headSize = 16
	mostSize = 1 << 30
)

var (
	magic    = []byte{0xa7, 'P', 'G', 'M'}
	checksum = crc32.MakeTable(crc32.Castagnoli)
)

// format is of the payloads. A file of another is left alone, by those who do not know it.
const format = 1

// What a record says.
const (
	isHeader = iota + 1 // whose the file is
	isOffer             // a resource was sent to Envoy
	isAccept            // Envoy has accepted what was sent with a number
	isForget            // Envoy has no use for some names any more
)

// record is one of the things that are written down.
type record struct {
	what    uint64
	number  uint64 // of the response, for offers and what accepts them
	typeURL string
	name    string
	version string
	aliases []string
	names   []string // that are gone
	owner   string
	format  uint64
	at      uint64 // Unix time
	body    []byte
}

// The numbers of the fields.
const (
	whatField = iota + 1
	numberField
	typeField
	nameField
	versionField
	aliasField
	namesField
	ownerField
	formatField
	atField
	bodyField // the last in the payload
)

// head is all of the payload but for the body.
func (r *record) head() []byte {
	var out []byte
	number := func(n protowire.Number, v uint64) {
		if v != 0 {
			out = protowire.AppendVarint(protowire.AppendTag(out, n, protowire.VarintType), v)
		}
	}
	text := func(n protowire.Number, texts ...string) {
		for _, t := range texts {
			if t != "" {
				out = protowire.AppendString(protowire.AppendTag(out, n, protowire.BytesType), t)
			}
		}
	}
	number(whatField, r.what)
	number(numberField, r.number)
	text(typeField, r.typeURL)
	text(nameField, r.name)
	text(versionField, r.version)
	text(aliasField, r.aliases...)
	text(namesField, r.names...)
	text(ownerField, r.owner)
	number(formatField, r.format)
	number(atField, r.at)
	if len(r.body) > 0 {
		out = protowire.AppendTag(out, bodyField, protowire.BytesType)
		out = protowire.AppendVarint(out, uint64(len(r.body)))
	}
	return out
}

// write writes the record, and returns how long it is.
func (r *record) write(w io.Writer) (int, error) {
	start := r.head()
	size := len(start) + len(r.body)
	head := make([]byte, headSize, headSize+len(start))
	copy(head, magic)
	binary.LittleEndian.PutUint32(head[4:], uint32(size))
	binary.LittleEndian.PutUint32(head[8:], crc32.Update(crc32.Checksum(start, checksum), checksum, r.body))
	binary.LittleEndian.PutUint32(head[12:], crc32.Checksum(head[:12], checksum))
	_, err := w.Write(append(head, start...))
	if err == nil {
		_, err = w.Write(r.body)
	}
	return headSize + size, err
}

var errBroken = errors.New("a record is broken")

// readHead returns the size and the checksum of a payload.
func readHead(head []byte) (size, sum uint32, err error) {
	if len(head) < headSize || !bytes.Equal(head[:4], magic) ||
		binary.LittleEndian.Uint32(head[12:]) != crc32.Checksum(head[:12], checksum) {
		return 0, 0, errBroken
	}
	size, sum = binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:])
	if size > mostSize {
		return 0, 0, errBroken
	}
	return size, sum, nil
}

// parse reads a record whose checksum is right. Its body is a part of the payload.
func parse(payload []byte) (*record, error) {
	r := &record{}
	for len(payload) > 0 {
		field, kind, n := protowire.ConsumeTag(payload)
		if n < 0 {
			return nil, errBroken
		}
		payload = payload[n:]
		switch kind {
		case protowire.VarintType:
			v, n := protowire.ConsumeVarint(payload)
			if n < 0 {
				return nil, errBroken
			}
			r.setNumber(field, v)
			payload = payload[n:]
		case protowire.BytesType:
			v, n := protowire.ConsumeBytes(payload)
			if n < 0 {
				return nil, errBroken
			}
			r.setBytes(field, v)
			payload = payload[n:]
		default:
			return nil, errBroken
		}
	}
	return r, nil
}

func (r *record) setNumber(field protowire.Number, v uint64) {
	switch field {
	case whatField:
		r.what = v
	case numberField:
		r.number = v
	case formatField:
		r.format = v
	case atField:
		r.at = v
	}
}

func (r *record) setBytes(field protowire.Number, v []byte) {
	switch field {
	case typeField:
		r.typeURL = string(v)
	case nameField:
		r.name = string(v)
	case versionField:
		r.version = string(v)
	case aliasField:
		r.aliases = append(r.aliases, string(v))
	case namesField:
		r.names = append(r.names, string(v))
	case ownerField:
		r.owner = string(v)
	case bodyField:
		r.body = v
	}
}
