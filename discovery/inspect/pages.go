package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/internal/monitor"
)

// Pages are all pages of this package.
func (i *Inspector) Pages() []monitor.Page {
	return []monitor.Page{
		page("/debug/proxies", "Lists the connected proxies, and for each type what they were sent, accepted and refused. Filter: proxy.", i.proxiesPage, "proxy"),
		page("/debug/config_dump", "Shows what discovery has for a proxy, in the form of Envoy's own dump and without secrets. Filters: proxy, type, name.",
			i.dumpPage, "proxy", "type", "name"),
		page("/debug/clusters", "Lists the clusters of a proxy with their endpoints. Filters: proxy, name.", i.clustersPage, "proxy", "name"),
		page("/debug/authorization", "Tells whom a proxy lets in, by which policies, in the order in which they are asked. Filter: proxy.", i.authorizationPage, "proxy"),
		page("/debug/push", "Tells what is on its way to proxies, which of them are behind, and of the last pushes.", i.pushPage),
		page("/debug/classes", "Lists the sets of proxies that get the same, what they get, and how much of it they share. Filter: class.", i.classesPage, "class"),
	}
}

// page shows what a function answers to a request that has only these filters.
func page(path, about string, answer func(*http.Request) (any, error), filters ...string) monitor.Page {
	return monitor.Page{Path: path, About: about, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := check(r.URL.Query(), filters)
		var shown any
		if err == nil {
			shown, err = answer(r)
		}
		if expected, ok := errors.AsType[*failure](err); ok {
			http.Error(w, expected.text, expected.code)
			return
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		monitor.WriteJSON(w, shown)
	})}
}

// check refuses unknown filters: a mistyped one would show everything.
func check(given url.Values, filters []string) error {
	for name := range given {
		if !slices.Contains(filters, name) {
			return &failure{http.StatusBadRequest, fmt.Sprintf("there is no filter %q: %s", name, nearest.Hint(name, filters, "there are "))}
		}
	}
	return nil
}

// named reads the filter name.
func named(r *http.Request) (*regexp.Regexp, error) {
	text := r.URL.Query().Get("name")
	if text == "" {
		return nil, nil
	}
	expression, err := regexp.Compile(text)
	if err != nil {
		return nil, &failure{http.StatusBadRequest, fmt.Sprintf("name=%s is not a regular expression: %v", text, err)}
	}
	return expression, nil
}

// selected reads the filters type and name. Several types are separated by commas, or given one by
// one.
func selected(r *http.Request) (s selection, err error) {
	var names []string
	for _, of := range sections {
		names = append(names, of.name)
	}
	for _, given := range r.URL.Query()["type"] {
		for name := range strings.SplitSeq(given, ",") {
			if !slices.Contains(names, name) {
				return s, &failure{http.StatusBadRequest, fmt.Sprintf("there is no type %q: %s", name, nearest.Hint(name, names, "there are "))}
			}
			s.types = append(s.types, name)
		}
	}
	s.name, err = named(r)
	return s, err
}

func (i *Inspector) dumpPage(r *http.Request) (any, error) {
	wanted, err := selected(r)
	if err != nil {
		return nil, err
	}
	of, err := i.given(r)
	if err != nil {
		return nil, err
	}
	text, err := dump(of, wanted)
	return json.RawMessage(text), err
}
