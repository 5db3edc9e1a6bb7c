// Package virtualhost holds drafts of virtual hosts. Comparing drafts tells whether two virtual
// hosts are the same, without making either.
package virtualhost

import (
	"cmp"
	"net/http"
	"slices"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/route"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// Draft is what a virtual host is made from.
type Draft struct {
	Name      string
	Domains   []string
	Routes    []*List // one after the other
	OnlyByTLS bool
	Refuses   bool // no rule is for it: every request is answered by 404
}

// List is a list of routes that several virtual hosts may have. As long as nothing that it was made
// from changes, it is the same one.
type List struct{ Routes []*routev3.Route }

// Compare orders virtual hosts by their names.
func (h Draft) Compare(other Draft) int { return cmp.Compare(h.Name, other.Name) }

// Same reports whether two become the same message, for proxies of the same traits in the same
// surroundings.
func (h Draft) Same(other Draft) bool {
	return h.Name == other.Name && h.OnlyByTLS == other.OnlyByTLS && h.Refuses == other.Refuses && slices.Equal(h.Routes, other.Routes) && slices.Equal(h.Domains, other.Domains)
}

// Message makes the virtual host. Its requests may say which try they are.
func (h Draft) Message(countsAttempts bool) *routev3.VirtualHost {
	out := &routev3.VirtualHost{Name: h.Name, Domains: h.Domains, IncludeRequestAttemptCount: countsAttempts && !h.Refuses}
	if h.OnlyByTLS {
		out.RequireTls = routev3.VirtualHost_ALL
	}
	if len(h.Routes) == 1 {
		out.Routes = h.Routes[0].Routes
		return out
	}
	for _, list := range h.Routes {
		out.Routes = append(out.Routes, list.Routes...)
	}
	out.Routes = catchAllLast(out.GetRoutes())
	return out
}

// TakesAll reports whether a virtual host is for any host, as that of a ServiceEntry for "*" is.
func (h Draft) TakesAll() bool { return slices.Contains(h.Domains, "*") }

// First is the first list of routes, or nil.
func (h Draft) First() *List {
	if len(h.Routes) == 0 {
		return nil
	}
	return h.Routes[0]
}

// catchAllLast puts routes that match any request last: otherwise nothing would reach the routes of
// further rules.
func catchAllLast(routes []*routev3.Route) []*routev3.Route {
	var specific, all []*routev3.Route
	for _, r := range routes {
		if route.IsCatchAll(r.GetMatch()) {
			all = append(all, r)
		} else {
			specific = append(specific, r)
		}
	}
	return append(specific, all...)
}

// Nobody is the host of a configuration that has none. A listener waits until the first host comes.
var Nobody = Draft{Name: "none", Domains: []string{"*"}, Refuses: true}

// Misdirected are the routes of hosts that another server is for: a client may send their requests over
// a connection to this one, and asks that server when it is told so.
var Misdirected = []*List{{Routes: []*routev3.Route{{
	Name: "misdirected", Match: message.AnyRequest(),
	Action: &routev3.Route_DirectResponse{DirectResponse: &routev3.DirectResponseAction{Status: http.StatusMisdirectedRequest}},
}}}}

// Unmatched is the virtual host for requests to unknown hosts. It passes them on to where the
// client meant to connect, or refuses them.
func Unmatched(v view.View) Draft {
	r := route.Unmatched(v)
	return Draft{Name: r.GetName(), Domains: []string{"*"}, Routes: []*List{{Routes: []*routev3.Route{r}}}}
}
