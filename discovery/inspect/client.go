// Package inspect shows what discovery knows of itself and of its proxies, as pages of JSON for
// people and for their tools. It tells the same to Istio's tool, over xDS (istioctl.go).
//
// The names of fields and of filters are an interface, described in docs/debugging.md. What is
// secret is on no page.
package inspect

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// Inspector shows a discovery.
type Inspector struct {
	Engine *push.Engine
	Server *ads.Server
	Limits ads.Limits // of the server
}

// client is a connected proxy at one moment.
type client struct {
	push.Member

	stream   *ads.Stream
	snapshot *served.Snapshot // what it should have; nil before there is a configuration
}

func (c client) id() string { return c.Proxy.ID }

// state is the state of a type; the zero value if the client has not asked for it.
func (c client) state(typeURL string) ads.TypeState {
	for _, t := range c.stream.Types() {
		if t.TypeURL == typeURL {
			return t
		}
	}
	return ads.TypeState{}
}

// clients lists all connected clients, sorted by name, and for each name the newest stream first:
// that one counts if a machine left without a word and came back.
func (i *Inspector) clients() []client {
	streams, members := i.Server.Streams(), i.Engine.Members()
	all := make([]client, 0, len(streams))
	for _, s := range streams {
		if m, known := members[s.Subscriber()]; known {
			all = append(all, client{Member: m, stream: s, snapshot: s.Subscriber().Snapshot()})
		}
	}
	slices.SortStableFunc(all, func(a, b client) int {
		return cmp.Or(cmp.Compare(a.id(), b.id()), b.stream.Since().Compare(a.stream.Since()))
	})
	return all
}

// failure is an error with a status code.
type failure struct {
	code int
	text string
}

func (f *failure) Error() string { return f.text }

// of lists the streams of one proxy: by its id, the first part of its id, or the id of its node.
func of(name string, all []client) ([]client, error) {
	for _, is := range []func(client) bool{
		func(c client) bool { return c.id() == name || c.stream.Node().GetId() == name },
		func(c client) bool { return strings.HasPrefix(c.id(), name+".") },
	} {
		var found []client
		for _, c := range all {
			if is(c) {
				found = append(found, c)
			}
		}
		switch ids := idsOf(found); {
		case len(ids) == 1:
			return found, nil
		case len(ids) > 1:
			return nil, &failure{http.StatusNotFound, fmt.Sprintf("%q may be each of %s: say which", name, some(ids))}
		}
	}
	return nil, &failure{http.StatusNotFound, fmt.Sprintf("no proxy %q is connected to this discovery: %s", name, hint(name, idsOf(all)))}
}

// idsOf lists ids once each.
func idsOf(all []client) (ids []string) {
	for _, c := range all {
		ids = append(ids, c.id())
	}
	return slices.Compact(ids)
}

func hint(name string, known []string) string {
	if len(known) == 0 {
		return "none is"
	}
	if near := nearest.Word(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "there are " + some(known)
}

// some lists names, but of many only the first.
func some(names []string) string {
	const most = 10
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// given is the one client that a request is about.
func (i *Inspector) given(r *http.Request) (client, error) {
	name := r.URL.Query().Get("proxy")
	if name == "" {
		return client{}, &failure{http.StatusBadRequest, "say of which proxy, as in " + r.URL.Path + "?proxy=ID; /debug/proxies lists them"}
	}
	found, err := of(name, i.clients())
	if err != nil {
		return client{}, err
	}
	if found[0].snapshot == nil {
		return client{}, &failure{http.StatusServiceUnavailable, "there is no configuration yet: /readyz says what is missing"}
	}
	return found[0], nil
}
