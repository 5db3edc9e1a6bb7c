package wire

import "google.golang.org/protobuf/encoding/protowire"

// WithVersions returns the delta request with each initial resource version replaced by what
// version returns. Everything else stays byte for byte.
func (r *Request) WithVersions(version func(name, version string) string) []byte {
	message := r.held
	out := make([]byte, 0, len(message))
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeField(message)
		if n < 0 {
			return append(out, message...) // cannot happen: ParseRequest accepted it
		}
		field := message[:n]
		message = message[n:]
		if number != requestFields[Delta].held || kind != protowire.BytesType {
			out = append(out, field...)
			continue
		}
		_, _, tag := protowire.ConsumeTag(field)
		content, _ := protowire.ConsumeBytes(field[tag:])
		name, had := entry(content)
		out = protowire.AppendTag(out, number, protowire.BytesType)
		now := version(name, had)
		out = protowire.AppendVarint(out, uint64(textSize(name)+textSize(now)))
		out = appendText(appendText(out, 1, name), 2, now)
	}
	return out
}
