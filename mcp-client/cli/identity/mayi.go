package identity

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/caller"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
)

// errAs answers those who know kubectl's flag --as.
var errAs = errors.New("nobody can ask in the name of another: ask with their token (--token-file FILE), or see its scopes in mcp-client token list")

// allowed is the printed form of a scope: what may be done to resources of which kinds, where.
type allowed struct {
	Verb       string   `json:"verb"`
	Namespaces []string `json:"namespaces"` // none means all
	Kinds      []string `json:"kinds"`      // none means all
}

// verbsInWords says what a scope's verb lets one do.
var verbsInWords = map[caller.Verb]string{
	caller.Read: "get, list, watch", caller.Write: "get, list, watch, create, apply, patch, delete", caller.Secrets: "get and list, without values, and write with write", caller.Admin: "everything",
}

// listAllowed prints what the caller may do; with a namespace, there.
func (p program) listAllowed(ctx context.Context) error {
	is, err := p.Caller(ctx)
	if err != nil {
		return err
	}
	out := output.Listing{Columns: []string{"VERB", "KINDS", "NAMESPACES", "WHICH IS"}}
	list := []allowed{}
	for _, s := range is.Scopes() {
		if p.Namespace.Chosen && !p.Namespace.All && len(s.Namespaces) > 0 && !slices.Contains(s.Namespaces, p.Namespace.Name) {
			continue
		}
		one := allowed{string(s.Verb), append([]string{}, s.Namespaces...), []string{}}
		for _, k := range s.Kinds {
			one.Kinds = append(one.Kinds, k.Name)
		}
		list = append(list, one)
		kinds := orAll(one.Kinds)
		if s.Verb == caller.Secrets {
			kinds = "Secret"
		}
		out.Add(s.String(), one.Verb, kinds, orAll(one.Namespaces), orVerb(s.Verb))
	}
	out.Tree = list
	return p.PrintListing(out)
}

func orAll(names []string) string {
	if len(names) == 0 {
		return "*"
	}
	shown := slices.Clone(names)
	for i, name := range shown {
		if name == "" {
			shown[i] = "-" // that of kinds without one, as scopes have it
		}
	}
	return strings.Join(shown, ",")
}

func orVerb(v caller.Verb) string {
	if text := verbsInWords[v]; text != "" {
		return text
	}
	return string(v)
}
