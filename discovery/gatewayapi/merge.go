package gatewayapi

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/hostname"
	"github.com/pgmesh/pgmesh/kinds"
)

// meshGateway is the name by which a VirtualService means the sidecars.
const meshGateway = "mesh"

// Key says whom the pieces of routes are for that are merged: a listener, or sidecars, and a host.
type Key struct {
	Gateway string // Listener.Name, or "mesh"
	// Namespace is that of the route, and Port that of the service, if it names one: for sidecars
	// alone.
	Namespace string
	Port      uint32
	Host      string
	Of        kinds.Key // the route, if it is about connections
}

// name is what Istio calls the VirtualService that the pieces become.
func (k Key) name() string {
	in := k.Gateway
	if in == meshGateway {
		in = k.Namespace
		if k.Port != 0 {
			in += "/" + strconv.FormatUint(uint64(k.Port), 10)
		}
	}
	name := strings.ReplaceAll(in+"/"+k.Host, "/", "~")
	if k.Of.Kind != nil {
		name = k.Of.Name + "~" + strings.ToLower(strings.TrimSuffix(k.Of.Kind.Name, "Route")) + "~" + name
	}
	return name
}

// Rules is a VirtualService that routes come to.
type Rules struct {
	Resource *kinds.Resource
	// Pieces are what it is made from: those of narrower hostnames first, and of these the oldest.
	Pieces []*Piece
	// From lists the routes, each once.
	From []kinds.Key
	// sources are the routes of rules, if there are several.
	sources map[*networking.HTTPRoute]*kinds.Resource
	extras  extras
}

// ForMesh reports whether sidecars follow the rules.
func (r *Rules) ForMesh() bool { return r.Pieces[0].Key.Gateway == meshGateway }

// Source is the route that a rule comes from.
func (r *Rules) Source(rule *networking.HTTPRoute) *kinds.Resource {
	if of := r.sources[rule]; of != nil {
		return of
	}
	return r.Pieces[0].Of
}

// Merge makes the rules of pieces with one key. Those of a narrower hostname count first. Then they are
// sorted by what they match, and where that is the same, the older route counts, as the API says.
func Merge(pieces []*Piece) *Rules {
	pieces = slices.SortedFunc(slices.Values(pieces), func(a, b *Piece) int {
		return cmp.Or(hostname.NarrowerFirst(a.Hostname, b.Hostname), compareRoutes(a.Of, b.Of))
	})
	first := slices.MinFunc(pieces, func(a, b *Piece) int { return compareRoutes(a.Of, b.Of) })
	spec := &networking.VirtualService{
		Hosts: []string{first.Key.Host}, Gateways: []string{first.Key.Gateway}, Tcp: first.TCP, Tls: first.TLS,
	}
	r := &Rules{Pieces: pieces}
	sorted := 0 // as many rules
	for i, p := range pieces {
		spec.Http = append(spec.Http, p.HTTP...)
		r.From = append(r.From, p.Of.Key())
		r.add(p.Extras)
		if i+1 == len(pieces) || hostname.NarrowerFirst(p.Hostname, pieces[i+1].Hostname) != 0 {
			slices.SortStableFunc(spec.GetHttp()[sorted:], compareRules)
			sorted = len(spec.GetHttp())
		}
	}
	if len(pieces) > 1 {
		r.sources = make(map[*networking.HTTPRoute]*kinds.Resource, len(spec.GetHttp()))
		for _, p := range pieces {
			for _, rule := range p.HTTP {
				r.sources[rule] = p.Of
			}
		}
	}
	r.Resource = &kinds.Resource{
		Kind: kindRules, Namespace: first.Of.Namespace, Name: first.Key.name(), CreateTime: first.Of.CreateTime, Spec: kinds.SpecOf(spec),
	}
	return r
}

// compareRoutes sorts the older route first, and then by namespace and name, as the API says.
func compareRoutes(a, b *kinds.Resource) int {
	return cmp.Or(cmp.Compare(a.OriginRank(), b.OriginRank()), a.CreateTime.Compare(b.CreateTime), cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind.Name, b.Kind.Name))
}

// compareRules sorts what is matched more narrowly first: by the path, then by the method, then by
// how many headers and how many parameters.
func compareRules(a, b *networking.HTTPRoute) int {
	x, y := a.GetMatch()[0], b.GetMatch()[0]
	return cmp.Or(
		cmp.Compare(rank(y.GetUri()), rank(x.GetUri())), cmp.Compare(length(y.GetUri()), length(x.GetUri())),
		cmp.Compare(count(y.GetMethod()), count(x.GetMethod())), cmp.Compare(len(y.GetHeaders()), len(x.GetHeaders())),
		cmp.Compare(len(y.GetQueryParams()), len(x.GetQueryParams())),
	)
}

// rank sorts matches of paths: exact ones are narrower than prefixes, and those than expressions.
func rank(m *networking.StringMatch) int {
	switch m.GetMatchType().(type) {
	case *networking.StringMatch_Exact:
		return 2
	case *networking.StringMatch_Prefix:
		return 1
	default:
		return 0
	}
}

func length(m *networking.StringMatch) int {
	return len(m.GetExact()) + len(m.GetPrefix()) + len(m.GetRegex())
}

func count(m *networking.StringMatch) int {
	if m == nil {
		return 0
	}
	return 1
}

// onPort limits rules to a port; 0 is any.
func onPort(of *rules, port uint32) (requests []*networking.HTTPRoute, beside extras) {
	if port == 0 {
		return of.requests, of.extras
	}
	requests = make([]*networking.HTTPRoute, len(of.requests))
	for i, r := range of.requests {
		match := proto.CloneOf(r.GetMatch()[0])
		match.Port = port
		requests[i] = with(r, match)
		beside = beside.with(requests[i], of.extras[r])
	}
	return requests, beside
}

// Same reports whether two pieces of one key say the same.
func (p *Piece) Same(other *Piece) bool {
	return p.Of == other.Of && p.Key == other.Key && p.Hostname == other.Hostname && sameList(p.HTTP, other.HTTP) && sameList(p.TCP, other.TCP) &&
		sameList(p.TLS, other.TLS) && p.sameExtras(other)
}

func sameList[M proto.Message](a, b []M) bool {
	return slices.EqualFunc(a, b, func(x, y M) bool { return proto.Equal(x, y) })
}
