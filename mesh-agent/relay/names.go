package relay

import (
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/mesh-agent/wire"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// nameTable is the type of what the resolver of this machine answers from. Envoy knows nothing of it: the agent asks for it on Envoy's
// stream, so that it is that of this very proxy, and keeps what is answered.
const nameTable = "type.googleapis.com/istio.networking.nds.v1.NameTable"

// names is the subscription to it.
type names struct{ server *Server }

func newNames(s *Server) *names { return &names{s} }

func (n *names) wanted() bool { return n.server.Names != nil }

// subscription is what discovery is asked for it with; nil if nobody wants it.
func (n *names) subscription(form wire.Form) *message {
	if !n.wanted() {
		return nil
	}
	return &message{(&wire.Request{TypeURL: nameTable}).Encode(form, nil)}
}

// take hands the table on, and returns what is answered to it.
func (n *names) take(form wire.Form, r *wire.Response) *message {
	answer := &wire.Request{TypeURL: nameTable, Nonce: r.Nonce, Version: r.Version}
	for _, one := range r.Resources {
		table, err := readTable(one.Body)
		if err != nil {
			n.server.Log.Error("discovery sends names that cannot be read, and those before them stay", "error", err)
			answer.Refused, answer.Reason = true, err.Error()
			break
		}
		n.server.Names(table)
	}
	return &message{answer.Encode(form, nil)}
}

func readTable(body []byte) (*ndsv1.NameTable, error) {
	packed, table := &anypb.Any{}, &ndsv1.NameTable{}
	if err := proto.Unmarshal(body, packed); err != nil {
		return nil, err
	}
	return table, packed.UnmarshalTo(table)
}
