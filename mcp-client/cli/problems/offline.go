package problems

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	"github.com/pgmesh/pgmesh/mcp-client/references"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Severities, as servers have them.
const (
	severityError   = "error"
	severityWarning = "warning"
)

// WouldCause has the server try documents in a dry run, and returns the problems that they would cause.
type WouldCause func(ctx context.Context, s *session.Session, documents []*kinds.Document) (Warnings, error)

// analyzed is what was read of files: where each resource is, and those of them that are right.
type analyzed struct {
	at        map[kinds.Key]*kinds.Document
	documents []*kinds.Document
	partly    bool // something could not be read
}

// ofFiles lists what is wrong with and between the resources of files, by themselves or, if there is somebody to ask, on top of what the
// server has.
func (p program) ofFiles(ctx context.Context, from files.Sources, ask WouldCause) error {
	paths, err := from.Files()
	if err != nil {
		return err
	}
	shown := files.NewProgress(p.Err, paths)
	defer shown.Clear()
	from.TellOn(p.Err)
	reading := &files.Reader{From: &from, In: p.In, Namespace: p.Namespace.Name, Skipped: files.Skipped{}, Shown: shown, GoOn: true}
	read := analyzed{at: map[kinds.Key]*kinds.Document{}}
	for _, file := range paths {
		err := reading.File(file, func(d *kinds.Document) error {
			if !reading.RefuseDuplicate(read.at, d) {
				read.at[d.Resource.Key()] = d // with the lines of its fields
				read.documents = append(read.documents, d)
			}
			return reading.NoteUnsupported(d)
		})
		if err != nil {
			return err
		}
	}
	found := []Problem{}
	err = reading.Conclusion(paths)
	mistakes, refused := errors.AsType[*failure.Refused](err)
	if err != nil && !refused {
		return err
	}
	if read.partly = refused; refused {
		found = ofViolations(found, mistakes.Violations, severityError, "invalid")
	}
	between, err := p.between(ctx, read, ask)
	if err != nil {
		return err
	}
	found = ofViolations(append(found, between...), reading.Unsupported, severityWarning, "unsupported")
	shown.Clear()
	reading.Skipped.Tell(p.Err)
	what := "problem"
	if ask != nil && len(read.documents) > 0 {
		p.tellOlder(ctx, read)
		what = "new problem"
	}
	return p.conclude(found, what, words.Counted(reading.Read, "resource", "resources"))
}

// tellOlder says how many problems the mesh has already with what the files have, for files bring none of these. A server that does
// not tell this caller is passed over.
func (p program) tellOlder(ctx context.Context, read analyzed) {
	req := &adminv1.ProblemsRequest{}
	for key := range read.at {
		if !key.Kind.Namespaced {
			req.Namespaces = nil // of all, since no name stands for none
			break
		}
		if !slices.Contains(req.GetNamespaces(), key.Namespace) {
			req.Namespaces = append(req.Namespaces, key.Namespace)
		}
	}
	resp, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.Problems, req)
	if err != nil {
		return
	}
	older := 0
	for _, problem := range Of(resp.GetProblems()) {
		if _, ours := read.keyOf(problem); ours {
			older++
		}
	}
	if older > 0 {
		fmt.Fprintf(p.Err, "note: the mesh has %s with these already: see mcp-client problems -A\n", words.Counted(older, "problem", "problems"))
	}
}

// between lists what is wrong between resources. What could not be read may be what others miss, which is said then.
func (p program) between(ctx context.Context, read analyzed, ask WouldCause) (found []Problem, err error) {
	if ask == nil {
		found, err = dangling(read)
	} else if len(read.documents) > 0 {
		found, err = p.tried(ctx, read, ask)
	}
	for i := range found {
		if read.partly && strings.HasPrefix(found[i].Code, "unknown-") {
			found[i].Message += ", as far as the files can be read"
		}
	}
	return found, err
}

// tried lists what the server finds, with the places in the files.
func (p program) tried(ctx context.Context, read analyzed, ask WouldCause) ([]Problem, error) {
	would, err := ask(ctx, p.Session, read.documents)
	if refused, is := errors.AsType[*failure.Refused](err); is { // such as by a namespace that lets no problem in
		return read.placed(ofViolations(nil, refused.Violations, severityError, "refused")), nil
	}
	if err != nil {
		return nil, err
	}
	if would.omitted > 0 { // errors come first, so that none is among them unless all that are listed are errors
		fmt.Fprintf(p.Err, "warning: and %d more problems, which the server does not list: mend these first\n", would.omitted)
	}
	return read.placed(would.Problems), nil
}

// placed adds to problems where in the files their resources are. What the server refuses comes without the group.
func (a analyzed) placed(found []Problem) []Problem {
	for i := range found {
		p := &found[i]
		if p.File != "" {
			continue
		}
		if key, ours := a.keyOf(*p); ours {
			at := a.at[key]
			p.File, p.Line = at.File, at.LineOf(p.Path)
		}
	}
	return found
}

// keyOf returns which of the resources in the files a problem is about.
func (a analyzed) keyOf(p Problem) (key kinds.Key, ours bool) {
	for key := range a.at {
		if key.Kind.Name == p.Kind && (p.Group == "" || p.Group == key.Kind.Group) && key.Namespace == p.Space && key.Name == p.Name {
			return key, true
		}
	}
	return kinds.Key{}, false
}

func ofViolations(found []Problem, all kinds.Errors, severity, code string) []Problem {
	for _, v := range all {
		found = append(found, Problem{
			Severity: severity, Code: code, Kind: v.Kind, Space: v.Namespace, Name: v.Name, Path: v.Path, Message: v.Reason, Hint: v.Hint, File: v.File, Line: v.Line,
		})
	}
	return found
}

// askServer is what to do about a name that only the files lack.
const askServer = "if the mesh has it already, have its server look: mcp-client analyze --live"

// dangling lists the names that nothing in the files has.
func dangling(read analyzed) ([]Problem, error) {
	var all []*kinds.Resource
	for _, d := range read.documents {
		all = append(all, d.Resource)
	}
	links, err := references.Of(all)
	if err != nil {
		return nil, err
	}
	found := []Problem{}
	for _, r := range all {
		for _, link := range links.From(r.Key()) {
			if len(link.To) > 0 || link.BuiltIn || mayBeMissing(r, link) {
				continue
			}
			code, what := codeOf(link)
			at := read.at[r.Key()]
			found = append(found, Problem{
				Severity: severityOf(r), Code: code, Group: r.Kind.Group, Kind: r.Kind.Name, Space: r.Namespace, Name: r.Name, Path: link.Path,
				Message: fmt.Sprintf("no %s in these files has the name %q", what, link.Name), Hint: askServer, File: at.File, Line: at.LineOf(link.Path),
			})
		}
	}
	return found, nil
}

// mayBeMissing reports whether a name needs nothing that has it: a VirtualService may be for hosts
// that no ServiceEntry has.
func mayBeMissing(r *kinds.Resource, link references.Reference) bool {
	return r.Kind.Name == "VirtualService" && strings.HasPrefix(link.Path, "spec.hosts")
}

// severityOf is that of a name of nothing: rules for a host do nothing, while a route to it fails.
func severityOf(r *kinds.Resource) string {
	if r.Kind.Name == "DestinationRule" {
		return severityWarning
	}
	return severityError
}

// codeOf returns the code of a name of nothing, and what would have it.
func codeOf(link references.Reference) (code, what string) {
	switch {
	case link.Kind == nil && strings.HasSuffix(link.Path, ".subset"):
		return "unknown-subset", "DestinationRule"
	case link.Kind == nil:
		return "unknown-host", "ServiceEntry"
	case strings.Contains(link.Path, "parentRef"):
		return "unknown-parent", link.Kind.Name
	case strings.Contains(link.Path, "targetRef"):
		return "unknown-target", link.Kind.Name
	case strings.Contains(link.Path, ".delegate"):
		return "unknown-delegate", link.Kind.Name
	}
	return "unknown-" + strings.ToLower(link.Kind.Name), link.Kind.Name
}
