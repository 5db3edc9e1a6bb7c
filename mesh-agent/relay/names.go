package relay

import (
	"maps"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/mesh-agent/lastgood"
	"github.com/pgmesh/pgmesh/mesh-agent/wire"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// nameTable is the type of what the resolver of this machine answers from. Envoy knows nothing of it: the agent asks for it on Envoy's
// stream, so that it is that of this very proxy, and keeps what is answered.
const nameTable = wire.NameTable

// names is the subscription to it.
type names struct {
	server *Server
	kept   *lastgood.Stream
}

func (n *names) wanted() bool { return n.server.Names != nil }

// subscription is what discovery is asked for it with; nil if nobody wants it.
func (n *names) subscription(form wire.Form) *message {
	if !n.wanted() {
		return nil
	}
	var held map[string]string
	if form == wire.Delta {
		n.server.mu.Lock()
		held = maps.Clone(n.server.held)
		n.server.mu.Unlock()
	}
	m := &message{(&wire.Request{TypeURL: nameTable}).Encode(form, held)}
	if r, err := wire.ParseRequest(form, m.bytes); err == nil {
		n.kept.Said(r)
	}
	return m
}

// take hands the table on, and returns what is answered to it.
func (n *names) take(form wire.Form, r *wire.Response) *message {
	answer := &wire.Request{TypeURL: nameTable, Nonce: r.Nonce, Version: r.Version}
	for _, one := range r.Resources {
		if err := n.server.tellNames(one); err != nil {
			n.server.Log.Error("discovery sends names that cannot be read, and those before them stay", "error", err)
			answer.Refused, answer.Reason = true, err.Error()
			break
		}
	}
	n.kept.Said(answer)
	return &message{answer.Encode(form, nil)}
}

// tellNames hands a table on.
func (s *Server) tellNames(one wire.Resource) error {
	table, err := readTable(one.Body)
	if err != nil {
		return err
	}
	s.Names(table)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = map[string]string{one.Name: one.Version}
	return nil
}

// recallNames hands on the table that was kept, so that names are known before there is a discovery.
func (s *Server) recallNames() {
	if s.Names == nil || s.Kept == nil {
		return
	}
	kept, _ := s.Kept.All(nameTable)
	for _, one := range kept {
		if err := s.tellNames(one); err != nil {
			s.Log.Warn("the names that were kept cannot be read", "error", err)
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
