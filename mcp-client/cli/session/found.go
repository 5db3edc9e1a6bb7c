package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// SelectorHelp says how labels are selected.
const SelectorHelp = `only resources with these labels: "app=reviews,tier!=front,version in (v1,v2),!legacy"`

// PrintFound prints the matching resources, and returns an error for those that do not exist.
// statuses returns what became of them; it may be nil.
func (s *Session) PrintFound(query []arguments.Wanted, labels selector.Selector, all []*kinds.Resource, statuses func([]*kinds.Resource) output.Statuses) (err error) {
	found, missing := s.Namespace.Find(query, all)
	found = slices.DeleteFunc(found, func(r *kinds.Resource) bool { return !labels.Matches(r.Labels) })
	single := len(query) == 1 && query[0].Name != ""
	if len(found) == 0 && len(missing) == 0 && s.Output.IsTable() {
		s.NothingFound(query)
		return nil
	}
	if len(found) > 0 || !single {
		var known output.Statuses
		if statuses != nil {
			known = statuses(found)
		}
		err = s.PrintResources(found, single, known)
	}
	if len(missing) > 0 {
		return errors.Join(err, failure.Several(missing))
	}
	return err
}

// NothingFound says that there is nothing of what was asked for.
func (s *Session) NothingFound(query []arguments.Wanted) {
	hint := ""
	if len(query) == 1 {
		hint = arguments.HintOfNamesake(query[0].Kind)
	}
	fmt.Fprintf(s.Err, "nothing found in %s%s\n", s.Namespace, hint)
}

// TellUnknownNamespace says that the namespace of the command is most likely misspelt, if the server knows
// nothing of it. It is for lists that have found nothing there: what has no namespace does not count. Servers
// that cannot say, or not to this caller, are passed over.
func (s *Session) TellUnknownNamespace(ctx context.Context, query []arguments.Wanted, labels selector.Selector, all []*kinds.Resource) {
	found, missing := s.Namespace.Find(query, all)
	if len(missing) > 0 || slices.ContainsFunc(found, func(r *kinds.Resource) bool { return r.Kind.Namespaced && labels.Matches(r.Labels) }) {
		return
	}
	s.TellIfUnknown(ctx, query)
}

// TellIfUnknown is TellUnknownNamespace of what has found nothing there, whatever it is of. An empty query is of all
// that the namespace has.
func (s *Session) TellIfUnknown(ctx context.Context, query []arguments.Wanted) {
	bound := len(query) == 0 || slices.ContainsFunc(query, func(w arguments.Wanted) bool { return w.Kind.Namespaced && w.Namespace == "" })
	if !s.Namespace.Chosen || s.Namespace.All || !bound {
		return
	}
	answer, err := Ask(ctx, s, adminv1.AdminServiceClient.List, &adminv1.ListRequest{Namespaces: []string{s.Namespace.Name}, PageSize: 1, CheckNamespaces: true})
	if err != nil {
		return
	}
	for _, unknown := range answer.GetCheckedNamespaces().GetUnknown() {
		hint := ""
		if near := unknown.GetNearest(); near != "" {
			hint = fmt.Sprintf(" (did you mean %q?)", near)
		}
		fmt.Fprintf(s.Err, "note: there is no resource in a namespace %q, and no grant names it%s\n", unknown.GetName(), hint)
	}
}
