package kuma

import (
	"maps"
	"slices"
	"strings"

	security "istio.io/api/security/v1beta1"
	typev1beta1 "istio.io/api/type/v1beta1"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// who are those that may ask: some, or everybody but some. They are named by their principals.
type who struct {
	everybody bool
	named     map[string]bool // those who may, or, of everybody, those who may not
}

func nobody() who { return who{named: map[string]bool{}} }

// allow lets principals in, and deny keeps them out.
func (w who) allow(principals ...string) { w.set(!w.everybody, principals) }

func (w who) deny(principals ...string) { w.set(w.everybody, principals) }

func (w who) set(named bool, principals []string) {
	for _, p := range principals {
		if named {
			w.named[p] = true
		} else {
			delete(w.named, p)
		}
	}
}

// may reports whether a principal may.
func (w who) may(principal string) bool { return w.named[principal] != w.everybody }

// both are those that are among either.
func (w who) both(other who) who {
	out := who{everybody: w.everybody && other.everybody, named: map[string]bool{}}
	for _, all := range []map[string]bool{w.named, other.named} {
		for p := range all {
			if may := w.may(p) && other.may(p); may != out.everybody {
				out.named[p] = true
			}
		}
	}
	return out
}

// grant is one step of what permissions say, in the order in which they count: the last one decides.
type grant struct {
	to    ref
	from  *fields.Object // a targetRef, for the form of old
	deny  bool
	whom  []string // principals, for the form with identities
	order int
	at    report.Place
}

// ranks are how exact a targetRef is. The more exact one counts.
var ranks = map[string]int{"Mesh": 0, "Dataplane": 1, "MeshSubset": 2, "MeshService": 3, "MeshServiceSubset": 4}

// What is said of identities counts after what is said of tags, denials after what is allowed, and last what nobody
// understands.
const (
	byIdentity = 10
	last       = 20
)

// trustDomain is that of the mesh, whatever it is called.
const trustDomain = "cluster.local"

func (c *Conversion) principal(name string) string {
	return trustDomain + "/ns/" + c.namespace + "/sa/" + result.Name(name)
}

// permissions writes who may ask which service. Kuma lets in nobody of whom no permission says that they may.
func (c *Conversion) permissions() {
	grants := c.grants()
	if !c.secured() {
		if len(grants) > 0 {
			c.Lose(grants[0].at, "permissions have no effect in Kuma, because the Mesh has no mutual TLS: they are left out", "enable mutual TLS in the Mesh, and convert again")
		}
		return
	}
	if c.settings == nil && len(grants) == 0 {
		return
	}
	if len(grants) == 0 {
		c.Note(c.settings.at, "no permission was read, so nobody may ask anybody, as in Kuma", "convert what kumactl get meshtrafficpermissions -o yaml prints with it")
	}
	if !slices.ContainsFunc(grants, func(g grant) bool { return !g.to.all() }) {
		c.write("kuma-permissions", nil, c.decide(grants, nil), c.settingsAt(grants))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.services)) {
		s := c.services[name]
		if labels := s.entry.GetWorkloadSelector().GetLabels(); len(labels) > 0 {
			c.write(result.Name(name)+"-permissions", labels, c.admitted(s, grants), s.at)
		}
	}
	c.Add("AuthorizationPolicy", c.namespace, "kuma-default-deny", &security.AuthorizationPolicy{}, c.settingsAt(grants))
	for _, g := range grants {
		labels, said := c.wanted(g.to)
		if !said || !slices.ContainsFunc(slices.Collect(maps.Values(c.services)), func(s *service) bool { return s.has(labels) }) {
			c.Lose(g.at, "it is for proxies that are not known, or that no labels can name: they let in nobody", "convert the Dataplanes with it, or write an AuthorizationPolicy")
		}
	}
}

func (c *Conversion) settingsAt(grants []grant) report.Place {
	if len(grants) > 0 {
		return grants[0].at
	}
	return c.settings.at
}

// has reports whether an instance of a service has labels.
func (s *service) has(labels map[string]string) bool {
	return kinds.LabelsWithin(labels, s.entry.GetWorkloadSelector().GetLabels()) ||
		slices.ContainsFunc(s.inbounds, func(in *inbound) bool { return kinds.LabelsWithin(labels, in.labels) })
}

// admitted are those that all instances of a service let in.
func (c *Conversion) admitted(s *service, grants []grant) who {
	if len(s.inbounds) == 0 {
		return c.decide(grants, s.entry.GetWorkloadSelector().GetLabels())
	}
	out := c.decide(grants, s.inbounds[0].labels)
	for _, in := range s.inbounds[1:] {
		next := c.decide(grants, in.labels)
		if out.everybody != next.everybody || !maps.Equal(out.named, next.named) {
			c.Lose(s.at, "not all instances of "+s.name+" let the same clients in: those that all let in may ask", "write an AuthorizationPolicy for each part, with the labels of that part")
		}
		out = out.both(next)
	}
	return out
}

// decide is what permissions say for a proxy with labels. Of a proxy without any, nothing is known.
func (c *Conversion) decide(grants []grant, labels map[string]string) who {
	out := nobody()
	for _, g := range grants {
		if wanted, said := c.wanted(g.to); !g.meets(wanted, labels) || !said && (!g.deny || g.to.kind == "MeshGateway") {
			continue // what denies and cannot be said is about everybody
		}
		switch principals, all := c.clients(g); {
		case all && g.deny:
			out = nobody()
		case all:
			out = who{everybody: true, named: map[string]bool{}}
		case g.deny:
			out.deny(principals...)
		default:
			out.allow(principals...)
		}
	}
	return out
}

// meets reports whether a proxy with labels may be meant. Whether it is in labels that are not known, is assumed of denials.
func (g *grant) meets(wanted, labels map[string]string) bool {
	for key, value := range wanted {
		if labels[key] != value && (labels[key] != "" || !g.deny) {
			return false
		}
	}
	return true
}

// clients are those of whom a grant speaks, or everybody.
func (c *Conversion) clients(g grant) (principals []string, all bool) {
	if g.from == nil {
		return g.whom, slices.Contains(g.whom, "*")
	}
	from := refOf(g.from)
	if from.all() {
		return nil, true
	}
	wanted, said := c.wanted(from)
	if said && from.kind == "MeshService" && len(from.tags) == 0 {
		return []string{c.principal(from.name)}, false
	}
	if said && len(wanted) == 1 && wanted[serviceTag] != "" {
		return []string{c.principal(wanted[serviceTag])}, false
	}
	if !said {
		c.Lose(g.at, "its clients cannot be said: if it allows them they are refused, and if it denies them all are", "name services, or write an AuthorizationPolicy")
		return nil, g.deny
	}
	for _, name := range slices.Sorted(maps.Keys(c.services)) {
		s := c.services[name]
		with := func(in *inbound) bool { return kinds.LabelsWithin(wanted, in.labels) }
		some := slices.ContainsFunc(s.inbounds, with)
		every := some && !slices.ContainsFunc(s.inbounds, func(in *inbound) bool { return !with(in) })
		if every || some && g.deny {
			principals = append(principals, c.principal(name))
		}
	}
	c.Lose(g.at, "identities have no tags: it is about the services that have these among the Dataplanes that were read", "look at the AuthorizationPolicy, and name services")
	if len(principals) == 0 {
		return nil, g.deny
	}
	return principals, false
}

// grants reads all permissions, in the order in which they count.
func (c *Conversion) grants() (out []grant) {
	for _, r := range c.of("TrafficPermission") {
		for _, to := range r.spec.Objects("destinations") {
			for _, from := range r.spec.Objects("sources") {
				out = append(out, grant{to: matchOf(to), whom: c.clientsOf(from), at: r.at})
			}
		}
		r.spec.Skip("type", "name", "mesh")
	}
	for _, r := range c.of("MeshTrafficPermission") {
		top := refOf(r.spec.Object("targetRef"))
		out = append(out, byTags(r, top)...)
		rules, whole := c.byIdentities(r, top)
		if out = append(out, rules...); !whole || len(r.spec.Left()) > 0 {
			c.Lose(r.at, "not all of it is understood: everybody is refused where it is about", "write an AuthorizationPolicy")
			out = append(out, grant{to: top, whom: []string{"*"}, deny: true, order: last, at: r.at})
		}
	}
	slices.SortStableFunc(out, func(a, b grant) int { return a.order - b.order })
	return out
}

// byTags reads what is said of clients by their tags. An allowance of which not all is understood is left out.
func byTags(r *resource, top ref) (out []grant) {
	for _, o := range r.spec.Objects("from") {
		action, from := o.Object("default").Text("action"), o.Object("targetRef")
		deny := !strings.HasPrefix(strings.ToUpper(action), "ALLOW")
		if action == "" || !deny && len(o.Left()) > 0 {
			continue
		}
		g := grant{to: top, from: from, deny: deny, order: byIdentity - 1, at: o.At}
		if rank, known := ranks[top.kind]; known && !top.odd {
			g.order = rank // where nobody knows how exact it is, it counts after others
		}
		if from == nil {
			g.whom = []string{"*"}
		}
		out = append(out, g)
	}
	return out
}

// byIdentities reads what is said of clients by their identities, and reports whether all of it is understood.
func (c *Conversion) byIdentities(r *resource, top ref) (out []grant, whole bool) {
	whole = true
	for _, o := range r.spec.Objects("rules") {
		said := o.Object("default")
		for i, list := range []string{"allow", "allowWithShadowDeny", "deny"} {
			for _, m := range said.Objects(list) {
				out = append(out, grant{to: top, whom: c.identity(m, list == "deny"), deny: list == "deny", order: byIdentity + i, at: m.At})
			}
		}
		whole = whole && len(said.Left())+len(o.Left()) == 0
	}
	return out, whole
}

// matchOf is a selector of old.
func matchOf(o *fields.Object) ref {
	tags := maps.Clone(o.Map("match"))
	maps.DeleteFunc(tags, func(_, value string) bool { return value == "*" })
	if len(tags) == 0 {
		return ref{kind: "Mesh"}
	}
	return ref{kind: "MeshSubset", tags: tags}
}

// clientsOf are the clients of a selector of old.
func (c *Conversion) clientsOf(o *fields.Object) []string {
	from := matchOf(o)
	switch name := from.tags[serviceTag]; {
	case from.kind == "Mesh":
		return []string{"*"}
	case len(from.tags) == 1 && name != "":
		return []string{c.principal(name)}
	}
	c.Lose(o.At, "identities have no tags: these clients are refused", "name services")
	return nil
}

// identity is whom a match by SPIFFE is about. Where that cannot be said, a denial is about everybody.
func (c *Conversion) identity(o *fields.Object, deny bool) []string {
	id := o.Object("spiffeID")
	kind, value := id.Text("type"), strings.TrimPrefix(id.Text("value"), "spiffe://")
	parts := strings.Split(value, "/")
	switch left := len(o.Unread()) > 0; {
	case left:
	case kind == "Exact" && len(parts) == 2 && parts[1] != "":
		return []string{c.principal(parts[1])}
	case kind == "Exact" && len(parts) == 5 && parts[1] == "ns" && parts[3] == "sa":
		return []string{trustDomain + "/" + strings.Join(parts[1:], "/")}
	case kind == "Prefix" && (len(parts) == 1 || len(parts) == 2 && parts[1] == ""):
		return []string{"*"}
	}
	c.Lose(o.At, "it cannot be said whom it is about: what it allows is refused, and what it denies is refused to all", "write an AuthorizationPolicy")
	if deny {
		return []string{"*"}
	}
	return nil
}

// write writes a policy.
func (c *Conversion) write(name string, labels map[string]string, w who, at report.Place) {
	policy := &security.AuthorizationPolicy{}
	if len(labels) > 0 {
		policy.Selector = &typev1beta1.WorkloadSelector{MatchLabels: labels}
	}
	named := slices.Sorted(maps.Keys(w.named))
	source := &security.Source{Principals: named}
	if w.everybody {
		source = &security.Source{Principals: []string{"*"}, NotPrincipals: named}
	}
	if w.everybody || len(named) > 0 {
		policy.Rules = []*security.Rule{{From: []*security.Rule_From{{Source: source}}}}
	}
	c.Add("AuthorizationPolicy", c.namespace, name, policy, at)
}
