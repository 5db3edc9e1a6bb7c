package demand

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/discovery/translate/ondemand"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

// host is a virtual host in the form that a proxy on demand is given.
type host struct {
	from  *served.Resource
	body  *anypb.Any
	needs []string // clusters of services
}

func newHost(r *served.Resource) *host {
	m, _ := decode(r).(*routev3.VirtualHost)
	h := &host{from: r, needs: clustersIn(m)}
	ondemand.Adapt(m)
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic("encode a virtual host: " + err.Error())
	}
	if h.body = r.Body; !bytes.Equal(value, r.Body.GetValue()) { // else the encoded form is in memory already
		h.body = &anypb.Any{TypeUrl: hostType, Value: value}
	}
	return h
}

// as returns the virtual host for a proxy that asks for it by these names.
func (h *host) as(aliases []string) *served.Resource {
	sum := sha256.New()
	sum.Write(h.body.GetValue())
	for _, alias := range aliases {
		sum.Write([]byte("\n" + alias))
	}
	r := served.NewAnswer(h.from.Name, hex.EncodeToString(sum.Sum(nil)[:12]), h.body, aliases)
	r.Refs = h.from.Refs
	return r
}

// nothing is the answer that there is no virtual host for a name.
func nothing(alias string) *served.Resource {
	return served.NewAnswer(alias, "none", nil, []string{alias})
}
