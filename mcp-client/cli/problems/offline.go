package problems

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	"github.com/pgmesh/pgmesh/mcp-client/references"
)

// Severities, as servers have them.
const (
	severityError   = "error"
	severityWarning = "warning"
)

// ofFiles lists what is wrong with and between the resources of files.
func (p program) ofFiles(from files.Sources) error {
	paths, err := from.Files()
	if err != nil {
		return err
	}
	shown := files.NewProgress(p.Err, paths)
	defer shown.Clear()
	from.TellOn(p.Err)
	reading := &files.Reader{From: &from, In: p.In, Namespace: p.Namespace.Name, Skipped: files.Skipped{}, Shown: shown}
	read := map[kinds.Key]*kinds.Document{}
	var all []*kinds.Resource
	for _, file := range paths {
		err := reading.File(file, func(d *kinds.Document) error {
			reading.RefuseDuplicate(read, d)
			all = append(all, d.Resource)
			return reading.NoteUnsupported(d)
		})
		if err != nil {
			return err
		}
	}
	err = reading.Conclusion(paths)
	mistakes, refused := errors.AsType[*failure.Refused](err)
	if err != nil && !refused {
		return err
	}
	found := []Problem{}
	if refused { // between resources of which some could not be read, nothing can be told
		found = ofViolations(found, mistakes.Violations, severityError, "invalid")
	} else if found, err = dangling(all, read); err != nil {
		return err
	}
	found = ofViolations(found, reading.Unsupported, severityWarning, "unsupported")
	shown.Clear()
	return p.conclude(found, words.Counted(reading.Read, "resource", "resources"))
}

func ofViolations(found []Problem, all kinds.Errors, severity, code string) []Problem {
	for _, v := range all {
		found = append(found, Problem{
			Severity: severity, Code: code, Kind: v.Kind, Space: v.Namespace, Name: v.Name, Path: v.Path, Message: v.Reason, Hint: v.Hint, File: v.File, Line: v.Line,
		})
	}
	return found
}

// dangling lists the names that nothing in the files has.
func dangling(all []*kinds.Resource, read map[kinds.Key]*kinds.Document) ([]Problem, error) {
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
			at := read[r.Key()]
			found = append(found, Problem{
				Severity: severityOf(r), Code: code, Group: r.Kind.Group, Kind: r.Kind.Name, Space: r.Namespace, Name: r.Name, Path: link.Path,
				Message: fmt.Sprintf("no %s in these files has the name %q", what, link.Name), File: at.File, Line: at.Line,
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
