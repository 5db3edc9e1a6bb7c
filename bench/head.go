package main

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// head is what a client must know of a response to acknowledge and count it.
type head struct {
	revision, typeURL, nonce string
	resources                int
}

// readHead parses a DeltaDiscoveryResponse without decoding its resources.
func readHead(data []byte) (h head, err error) {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return h, fmt.Errorf("read a response: %w", protowire.ParseError(n))
		}
		data = data[n:]
		if kind != protowire.BytesType {
			return h, fmt.Errorf("read a response: field %d is of the kind %d, which none of it is", number, kind)
		}
		value, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return h, fmt.Errorf("read a response: %w", protowire.ParseError(n))
		}
		data = data[n:]
		switch number {
		case 1:
			h.revision = string(value)
		case 2:
			h.resources++
		case 4:
			h.typeURL = string(value)
		case 5:
			h.nonce = string(value)
		}
	}
	return h, nil
}
