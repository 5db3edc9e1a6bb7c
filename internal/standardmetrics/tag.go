// Package standardmetrics is what discovery and agents agree on about Istio's standard metrics.
//
// Envoy counts under the names here. It keeps all labels of a series in one tag, because what a
// label costs Envoy at each request is the same for a short one and a long one. Discovery says what
// Envoy writes into that tag (Format), and the agent's page takes it apart (Labels).
package standardmetrics

import (
	"encoding/json"
	"strings"
)

const (
	// Scope is the prefix of the metrics in Envoy. Their names follow, without "istio_".
	Scope = "istio"
	// Tag is the one tag with all labels. All others but those here are labels themselves, which
	// somebody has added.
	Tag = "istio"
	// Without is a tag with the names of labels that are left out.
	Without = "istio_without"
	// Messages is a tag with two numbers: how many messages the client and the server have sent in
	// each of the calls that were counted.
	Messages = "istio_messages"
	// between separates the parts of the tag. No name, address or identity has it. What a stranger's
	// certificate says of its bearer may have it, and is the last part.
	between = "^"
	// parts is how many there are.
	parts = 10
)

// Reporter is the side that has counted.
type Reporter string

// The sides.
const (
	Source      Reporter = "source"
	Destination Reporter = "destination"
)

// Series is what Envoy writes into the tag: texts, or formats that it fills in.
type Series struct {
	Reporter Reporter
	Own      Workload
	Protocol string
	Code     string
	Flags    string
	GRPC     string
	// OwnID and PeerID are the identities that the two ends have shown each other.
	OwnID, PeerID string
	// Service is a cluster's name at the source, and a host at the destination.
	Service string
	// Peer is, at the source, the endpoint's tag or the services of the cluster; at the destination
	// what the certificate says of its workload.
	Peer string
}

// Format writes a series as Labels reads it.
func (s Series) Format() string {
	return strings.Join([]string{
		string(s.Reporter), s.Own.Encode(), s.Protocol, s.Code, s.Flags, s.GRPC, s.OwnID, s.PeerID, s.Service, s.Peer,
	}, between)
}

func parse(text string) (Series, bool) {
	p := strings.SplitN(text, between, parts)
	if len(p) != parts {
		return Series{}, false
	}
	own, ok := ParseWorkload(p[1])
	r := Reporter(p[0])
	return Series{
		Reporter: r, Own: own, Protocol: p[2], Code: p[3], Flags: p[4], GRPC: p[5], OwnID: p[6], PeerID: p[7], Service: p[8], Peer: p[9],
	}, ok && (r == Source || r == Destination)
}

// service is a service of a cluster's metadata.
type service struct {
	Host, Name, Namespace string
}

// servicesIn reads the services of a cluster's metadata.
func servicesIn(text string) (first service, ok bool) {
	var all []service
	if json.Unmarshal([]byte(text), &all) != nil || len(all) == 0 {
		return service{}, false
	}
	return all[0], true
}
