package wire

import "google.golang.org/protobuf/encoding/protowire"

// Encode returns the encoded response.
func (r *Response) Encode(form Form) []byte {
	size := 0
	for _, one := range r.Resources {
		size += len(one.Body) + len(one.Name) + len(one.Version) + 32
	}
	out := make([]byte, 0, size+256)
	out = appendText(out, 1, r.Version)
	for _, one := range r.Resources {
		out = protowire.AppendTag(out, 2, protowire.BytesType)
		if form == SotW {
			out = protowire.AppendBytes(out, one.Body)
			continue
		}
		out = protowire.AppendVarint(out, uint64(one.size()))
		out = one.append(out)
	}
	out = appendText(out, 4, r.TypeURL)
	out = appendText(out, 5, r.Nonce)
	if form == Delta {
		for _, name := range r.Removed {
			out = appendText(out, responseRemoved, name)
		}
	}
	return out
}

func (r *Resource) append(out []byte) []byte {
	out = appendText(out, 1, r.Version)
	out = protowire.AppendTag(out, 2, protowire.BytesType)
	out = protowire.AppendBytes(out, r.Body)
	out = appendText(out, 3, r.Name)
	for _, alias := range r.Aliases {
		out = appendText(out, 4, alias)
	}
	return out
}

func (r *Resource) size() int {
	size := textSize(r.Version) + textSize(r.Name) + 1 + protowire.SizeBytes(len(r.Body))
	for _, alias := range r.Aliases {
		size += textSize(alias)
	}
	return size
}

// Encode returns the encoded request, without a node. In the delta form, held becomes
// initial_resource_versions.
func (r *Request) Encode(form Form, held map[string]string) []byte {
	is := requestFields[form]
	var out []byte
	if form == SotW {
		out = appendText(out, is.version, r.Version)
	}
	for _, name := range r.Names {
		out = appendText(out, is.names, name)
	}
	out = appendText(out, is.typeURL, r.TypeURL)
	for _, name := range r.Subscribe {
		out = appendText(out, is.subscribe, name)
	}
	for _, name := range r.Unsubscribe {
		out = appendText(out, is.unsubscribe, name)
	}
	for name, version := range held {
		out = protowire.AppendTag(out, is.held, protowire.BytesType)
		out = protowire.AppendVarint(out, uint64(textSize(name)+textSize(version)))
		out = appendText(appendText(out, 1, name), 2, version)
	}
	out = appendText(out, is.nonce, r.Nonce)
	if r.Refused {
		out = protowire.AppendTag(out, is.failure, protowire.BytesType)
		out = protowire.AppendBytes(out, appendText(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 3), 2, r.Reason)) // INVALID_ARGUMENT
	}
	return out
}

// appendText appends a string field, unless it is empty.
func appendText(out []byte, n protowire.Number, text string) []byte {
	if text == "" {
		return out
	}
	return protowire.AppendString(protowire.AppendTag(out, n, protowire.BytesType), text)
}

func textSize(text string) int {
	if text == "" {
		return 0
	}
	return 1 + protowire.SizeBytes(len(text))
}
