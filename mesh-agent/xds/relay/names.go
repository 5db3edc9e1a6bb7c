package relay

import (
	"maps"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/mesh-agent/xds/lastgood"
	"github.com/pgmesh/pgmesh/mesh-agent/xds/wire"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// nameTable is the type with the mesh's DNS names, which the machine's resolver answers from. Envoy
// does not know it: the agent subscribes on Envoy's stream, so that discovery sends the table of
// this very proxy, and keeps the responses to itself.
const nameTable = wire.NameTable

// nameSubscription is the agent's subscription to nameTable on one stream.
type nameSubscription struct {
	server *Server
	kept   *lastgood.Stream
}

func (n *nameSubscription) wanted() bool { return n.server.Names != nil }

// request returns the request that subscribes, or nil if Options.Names is not set.
func (n *nameSubscription) request(form wire.Form) *message {
	if !n.wanted() {
		return nil
	}
	var held map[string]string
	if form == wire.Delta {
		n.server.mu.Lock()
		held = maps.Clone(n.server.nameVersions)
		n.server.mu.Unlock()
	}
	m := &message{(&wire.Request{TypeURL: nameTable}).Encode(form, held)}
	if r, err := wire.ParseRequest(form, m.bytes); err == nil {
		n.kept.OnRequest(r)
	}
	return m
}

// accept delivers the table and returns the ACK or NACK.
func (n *nameSubscription) accept(form wire.Form, r *wire.Response) *message {
	answer := &wire.Request{TypeURL: nameTable, Nonce: r.Nonce, Version: r.Version}
	for _, one := range r.Resources {
		if err := n.server.deliverNames(one); err != nil {
			n.server.Log.Error("discovery sends names that cannot be read; the previous ones stay in force", "error", err)
			answer.Refused, answer.Reason = true, err.Error()
			break
		}
	}
	n.kept.OnRequest(answer)
	return &message{answer.Encode(form, nil)}
}

// deliverNames passes a table to Options.Names.
func (s *Server) deliverNames(one wire.Resource) error {
	table, err := readTable(one.Body)
	if err != nil {
		return err
	}
	s.Names(table)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nameVersions = map[string]string{one.Name: one.Version}
	return nil
}

// restoreNames delivers the stored table, so that names resolve before discovery answers.
func (s *Server) restoreNames() {
	if s.Names == nil || s.Kept == nil {
		return
	}
	kept, _ := s.Kept.All(nameTable)
	for _, one := range kept {
		if err := s.deliverNames(one); err != nil {
			s.Log.Warn("the stored names cannot be read", "error", err)
		}
	}
}

func readTable(body []byte) (*ndsv1.NameTable, error) {
	packed, table := &anypb.Any{}, &ndsv1.NameTable{}
	if err := proto.Unmarshal(body, packed); err != nil {
		return nil, err
	}
	return table, packed.UnmarshalTo(table)
}
