package connect

import (
	"fmt"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// RefOf names a resource to the admin API.
func RefOf(k kinds.Key) *adminv1.ResourceRef {
	return &adminv1.ResourceRef{Group: k.Kind.Group, Kind: k.Kind.Name, Namespace: k.Namespace, Name: k.Name}
}

// violationsOf converts the violations in a refusal.
func violationsOf(r *adminv1.Refusal) kinds.Errors {
	violations := make(kinds.Errors, 0, len(r.GetViolations())+1)
	for _, v := range r.GetViolations() {
		violations = append(violations, kinds.Violation{
			File: v.GetFile(), Document: int(v.GetDocument()), Line: int(v.GetLine()),
			Kind: v.GetKind(), Namespace: v.GetNamespace(), Name: v.GetName(),
			Path: v.GetPath(), Reason: v.GetReason(), Hint: v.GetHint(),
		})
	}
	if r.GetOmitted() > 0 {
		violations = append(violations, kinds.Violation{Reason: fmt.Sprintf("%d more violations are not shown", r.GetOmitted())})
	}
	return violations
}

func conflictOf(sent *adminv1.Conflicts) *failure.Conflict {
	var lines []string
	var of []failure.Changed
	changed, created := "", ""
	for _, c := range sent.GetConflicts() {
		lines = append(lines, ConflictText(c))
		r := c.GetResource()
		of = append(of, failure.Changed{Group: r.GetGroup(), Kind: r.GetKind(), Namespace: r.GetNamespace(), Name: r.GetName(), How: ConflictText(c)})
		switch {
		case c.GetExpected() > 0 && c.GetAbsent() && c.GetRevision() == 0: // a copy of another resource has its version still
			created = "to create it, leave its metadata.resourceVersion out; "
		case c.GetExpected() > 0:
			changed = "the object has been modified: get it again, and make your change to that; "
		}
	}
	return &failure.Conflict{Text: strings.Join(lines, "; ") + "; " + created + changed + "nothing was changed", Of: of}
}

// ConflictText says what somebody has made of a resource.
func ConflictText(c *adminv1.RevisionConflict) string {
	r := c.GetResource()
	title := words.Title(r.GetGroup(), r.GetKind(), r.GetNamespace(), r.GetName())
	done := "changed"
	switch {
	case c.GetAbsent() && c.GetRevision() == 0:
		return title + " does not exist"
	case c.GetAbsent():
		done = "deleted"
	}
	text := fmt.Sprintf("%s was %s in revision %d", title, done, c.GetRevision())
	if c.GetExpected() == 0 {
		text = fmt.Sprintf("%s already exists, since revision %d", title, c.GetRevision())
	}
	if c.GetAuthor() != "" {
		text += " by " + words.MadeBy(c.GetAuthor(), c.GetApplication())
	}
	if c.GetTime() != nil {
		text += " at " + words.LocalTime(c.GetTime().AsTime())
	}
	if c.GetMessage() != "" {
		text += fmt.Sprintf(": %q", words.FirstLine(c.GetMessage()))
	}
	return text
}
