package signer

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// scheme is the URI scheme of RFC 7512.
const scheme = "pkcs11:"

// token is a key in a PKCS #11 token, used through OpenSC's pkcs11-tool. The token's module is a C
// library: in a process of its own it cannot crash mcp-server or read its memory.
type token struct {
	module  string // path of the library
	label   string // the token's
	object  string // the key's label
	id      string // the key's id, in hexadecimal
	pinFile string
}

// parseURI reads
// pkcs11:token=mesh;object=root?module-path=/usr/lib/softhsm/libsofthsm2.so&pin-source=/etc/pgmesh/pin.
func parseURI(text string) (*token, error) {
	path, query, _ := strings.Cut(strings.TrimPrefix(text, scheme), "?")
	t := &token{}
	for _, each := range append(split(path, ";"), split(query, "&")...) {
		name, escaped, _ := strings.Cut(each, "=")
		value, err := url.PathUnescape(escaped)
		if err == nil {
			err = t.set(name, value)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case t.label == "":
		return nil, errors.New("token= is missing: the label of the token")
	case t.object == "" && t.id == "":
		return nil, errors.New("object= and id= are missing: the label of the key, or its id")
	case t.module == "":
		return nil, errors.New("?module-path= is missing: the library of the token's maker, such as /usr/lib/softhsm/libsofthsm2.so")
	case t.pinFile == "":
		return nil, errors.New("pin-source= is missing: a file with the PIN")
	}
	return t, nil
}

func split(text, by string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, by)
}

func (t *token) set(name, value string) error {
	switch name {
	case "token":
		t.label = value
	case "object":
		t.object = value
	case "id":
		t.id = hex.EncodeToString([]byte(value))
	case "module-path":
		t.module = value
	case "pin-source":
		t.pinFile = strings.TrimPrefix(strings.TrimPrefix(value, "file://"), "file:")
	case "type":
		if value != "private" {
			return fmt.Errorf("type=%s: it is a private key that signs", value)
		}
	case "pin-value":
		return errors.New("pin-value= would be seen in the list of processes: write the PIN into a file, and name that with pin-source=")
	default:
		return fmt.Errorf("%s= is not known here: token, object, id, type, module-path and pin-source are", name)
	}
	return nil
}
