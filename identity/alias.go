package identity

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/url"
)

// An alias is what metrics call the bearer of a certificate. It is no identity, and nobody is let
// in by it: a machine says itself what its alias is. A certificate has it beside its SPIFFE id, as
// a name of a type of our own, which all others pass over.

var (
	alternativeNames = asn1.ObjectIdentifier{2, 5, 29, 17}
	aliasType        = asn1.ObjectIdentifier{2, 25, 1483920511} // in the arc of UUIDs, which anybody may use
)

// Tags of general names (RFC 5280).
const (
	otherName = 0
	uriName   = 6
)

// typedName is a name with its type.
type typedName struct {
	Type  asn1.ObjectIdentifier
	Value string `asn1:"tag:0,explicit,utf8"`
}

// WithAlias is the extension with the alternative names of a certificate: its SPIFFE id, and an
// alias. It is critical if the certificate has no subject.
func WithAlias(id *url.URL, alias string, critical bool) (pkix.Extension, error) {
	named, err := asn1.MarshalWithParams(typedName{Type: aliasType, Value: alias}, "tag:0")
	if err != nil {
		return pkix.Extension{}, err
	}
	names, err := asn1.Marshal([]asn1.RawValue{
		{Class: asn1.ClassContextSpecific, Tag: uriName, Bytes: []byte(id.String())}, {FullBytes: named},
	})
	return pkix.Extension{Id: alternativeNames, Critical: critical, Value: names}, err
}

// AliasOf returns the alias in a certificate, or "".
func AliasOf(c *x509.Certificate) string {
	for _, e := range c.Extensions {
		if !e.Id.Equal(alternativeNames) {
			continue
		}
		var names []asn1.RawValue
		if _, err := asn1.Unmarshal(e.Value, &names); err != nil {
			return ""
		}
		for _, name := range names {
			if alias, is := aliasIn(name); is {
				return alias
			}
		}
	}
	return ""
}

func aliasIn(name asn1.RawValue) (alias string, is bool) {
	var typed typedName
	if name.Class != asn1.ClassContextSpecific || name.Tag != otherName {
		return "", false
	}
	if _, err := asn1.UnmarshalWithParams(name.FullBytes, &typed, "tag:0"); err != nil || !typed.Type.Equal(aliasType) {
		return "", false
	}
	return typed.Value, true
}
