// Package attest says what a release was made from, and signs that, in the field's formats: in-toto's
// statements, SLSA's provenance, CycloneDX's lists of components, DSSE's envelopes.
package attest

import (
	"encoding/base64"
	"encoding/json"

	"github.com/secure-systems-lab/go-securesystemslib/dsse"

	"github.com/pgmesh/pgmesh/deploy/release/signing"
)

// Types of predicates.
const (
	Provenance = "https://slsa.dev/provenance/v1"
	Components = "https://cyclonedx.org/bom"
)

// Statement says something about files or images.
type Statement struct {
	Type          string    `json:"_type"`
	Subject       []Subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     any       `json:"predicate"`
}

// Subject is what a statement is about.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// About returns a statement.
func About(subjects []Subject, predicateType string, predicate any) Statement {
	return Statement{"https://in-toto.io/Statement/v1", subjects, predicateType, predicate}
}

const payloadType = "application/vnd.in-toto+json"

// Sign puts a statement into a signed envelope.
func Sign(s Statement, key *signing.Key) ([]byte, error) {
	payload, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	signature, err := key.Bare(dsse.PAE(payloadType, payload))
	if err != nil {
		return nil, err
	}
	return json.Marshal(dsse.Envelope{
		PayloadType: payloadType, Payload: base64.StdEncoding.EncodeToString(payload),
		Signatures: []dsse.Signature{{KeyID: key.Fingerprint(), Sig: base64.StdEncoding.EncodeToString(signature)}},
	})
}
