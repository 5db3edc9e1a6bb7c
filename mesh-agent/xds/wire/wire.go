// Package wire reads the xDS messages between Envoy and discovery as far as the agent between them
// needs: subscriptions, responses, and whether they were accepted. It does not decode resources;
// they stay the bytes they arrived as.
package wire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Form is one of the two forms of xDS.
type Form bool

// Delta sends changes; SotW, the state of the world, repeats every resource of a type.
const (
	SotW  Form = false
	Delta Form = true
)

func (f Form) String() string {
	if f == Delta {
		return "delta"
	}
	return "sotw"
}

// Request is a message from Envoy.
type Request struct {
	TypeURL string
	Nonce   string // of the response it acknowledges or refuses; empty for neither
	Refused bool   // reports a NACK of that response
	Reason  string
	Version string // what Envoy has of the type (SotW); empty for nothing

	Names                  []string // all subscribed names (SotW)
	Subscribe, Unsubscribe []string // changes of the subscription (Delta)
	Held                   int      // number of initial resource versions (Delta)
	HasNode                bool

	held []byte // the whole message, from which Versions reads on demand
}

// Response is a message from discovery.
type Response struct {
	TypeURL   string
	Nonce     string
	Version   string
	Resources []Resource
	Removed   []string // names (Delta)
}

// Resource is one resource of a response. Body is the encoded google.protobuf.Any and shares the
// response's memory.
type Resource struct {
	Name, Version string
	Aliases       []string
	Body          []byte
}

// Field numbers, by form.
var (
	requestFields = map[Form]struct{ version, node, names, typeURL, subscribe, unsubscribe, held, nonce, failure protowire.Number }{
		SotW:  {version: 1, node: 2, names: 3, typeURL: 4, nonce: 5, failure: 6},
		Delta: {node: 1, typeURL: 2, subscribe: 3, unsubscribe: 4, held: 5, nonce: 6, failure: 7},
	}
	responseRemoved = protowire.Number(6) // Delta
)

// ParseRequest parses a request.
func ParseRequest(form Form, message []byte) (*Request, error) {
	r, is := &Request{held: message}, requestFields[form]
	err := fields(message, func(n protowire.Number, value []byte) error {
		switch n {
		case is.version:
			r.Version = string(value)
		case is.node:
			r.HasNode = true
		case is.names:
			r.Names = append(r.Names, string(value))
		case is.typeURL:
			r.TypeURL = string(value)
		case is.subscribe:
			r.Subscribe = append(r.Subscribe, string(value))
		case is.unsubscribe:
			r.Unsubscribe = append(r.Unsubscribe, string(value))
		case is.held:
			r.Held++
		case is.nonce:
			r.Nonce = string(value)
		case is.failure:
			r.Refused = true
			return fields(value, func(n protowire.Number, value []byte) error {
				if n == 2 {
					r.Reason = string(value)
				}
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("a request of the %s form: %w", form, err)
	}
	return r, nil
}

// Versions calls f with each initial resource version: what Envoy has from an earlier stream.
func (r *Request) Versions(f func(name, version string)) {
	if r.Held == 0 {
		return
	}
	_ = fields(r.held, func(n protowire.Number, value []byte) error { // cannot fail: ParseRequest accepted it
		if n == requestFields[Delta].held {
			name, version := entry(value)
			f(name, version)
		}
		return nil
	})
}

// entry parses an entry of a map from string to string.
func entry(message []byte) (key, value string) {
	_ = fields(message, func(n protowire.Number, content []byte) error { // an unreadable part stays empty
		switch n {
		case 1:
			key = string(content)
		case 2:
			value = string(content)
		}
		return nil
	})
	return key, value
}

// ParseResponse parses a response.
func ParseResponse(form Form, message []byte) (*Response, error) {
	r := &Response{}
	err := fields(message, func(n protowire.Number, value []byte) error {
		switch n {
		case 1:
			r.Version = string(value)
		case 2:
			one, err := parseResource(form, value)
			if err != nil {
				return err
			}
			r.Resources = append(r.Resources, one)
		case 4:
			r.TypeURL = string(value)
		case 5:
			r.Nonce = string(value)
		case responseRemoved:
			if form == Delta {
				r.Removed = append(r.Removed, string(value))
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("a response of the %s form: %w", form, err)
	}
	return r, nil
}

func parseResource(form Form, message []byte) (r Resource, err error) {
	if form == SotW {
		r.Body = message
		r.Name, err = nameOf(message)
		return r, err
	}
	err = fields(message, func(n protowire.Number, value []byte) error {
		switch n {
		case 1:
			r.Version = string(value)
		case 2:
			r.Body = value
		case 3:
			r.Name = string(value)
		case 4:
			r.Aliases = append(r.Aliases, string(value))
		}
		return nil
	})
	return r, err
}

// NameTable is the type of the mesh's DNS names. There is one resource of it, without a name, and
// Envoy does not know the type.
const NameTable = "type.googleapis.com/istio.networking.nds.v1.NameTable"

// nameOf returns the name within a resource. In every resource type of Envoy it is the first field.
func nameOf(packed []byte) (name string, err error) {
	typeURL := ""
	err = fields(packed, func(n protowire.Number, value []byte) error {
		if n == 1 {
			typeURL = string(value)
		}
		if n != 2 || typeURL == NameTable {
			return nil
		}
		return fields(value, func(n protowire.Number, value []byte) error {
			if n == 1 {
				name = string(value)
			}
			return nil
		})
	})
	return name, err
}

// fields calls f with each length-delimited field of a message: strings, bytes and messages.
func fields(message []byte, f func(n protowire.Number, value []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
				return protowire.ParseError(n)
			}
			message = message[n:]
			continue
		}
		value, n := protowire.ConsumeBytes(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := f(number, value); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}
