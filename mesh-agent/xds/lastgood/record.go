package lastgood

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// A record is a fixed-size head and a payload, each with its own checksum. By the head's magic,
// intact records are found again after broken ones.
const (
	headSize   = 16
	maxPayload = 1 << 30 // as large as a message of discovery may be
)

var (
	magic    = []byte{0xa7, 'P', 'G', 'M'}
	checksum = crc32.MakeTable(crc32.Castagnoli)
)

// format is the version of the payloads. A file with a later one is left alone.
const format = 1

// The types of records.
const (
	isHeader = iota + 1 // the owner of the file
	isOffer             // a resource sent to Envoy
	isAccept            // Envoy's ACK of the response with a number
	isForget            // names that Envoy unsubscribed from
)

// record is the union of all record types.
type record struct {
	what    uint64
	number  uint64 // of the response, for offers and accepts
	typeURL string
	name    string
	version string
	aliases []string
	names   []string // removed names
	owner   string
	format  uint64
	at      uint64 // Unix time
	body    []byte
}

// Field numbers.
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
	bodyField // must come last
)

// fields returns the payload without the body.
func (r *record) fields() []byte {
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

// write writes the record and returns its size.
func (r *record) write(w io.Writer) (int, error) {
	fields := r.fields()
	size := len(fields) + len(r.body)
	head := make([]byte, headSize, headSize+len(fields))
	copy(head, magic)
	binary.LittleEndian.PutUint32(head[4:], uint32(size))
	binary.LittleEndian.PutUint32(head[8:], crc32.Update(crc32.Checksum(fields, checksum), checksum, r.body))
	binary.LittleEndian.PutUint32(head[12:], crc32.Checksum(head[:12], checksum))
	_, err := w.Write(append(head, fields...))
	if err == nil {
		_, err = w.Write(r.body)
	}
	return headSize + size, err
}

var errBroken = errors.New("a record is broken")

// readHead verifies a head and returns the payload's size and checksum.
func readHead(head []byte) (size, sum uint32, err error) {
	if len(head) < headSize || !bytes.Equal(head[:4], magic) ||
		binary.LittleEndian.Uint32(head[12:]) != crc32.Checksum(head[:12], checksum) {
		return 0, 0, errBroken
	}
	size, sum = binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:])
	if size > maxPayload {
		return 0, 0, errBroken
	}
	return size, sum, nil
}

// parse decodes a payload. The body shares its memory.
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
