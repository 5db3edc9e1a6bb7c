package cli

import (
	"fmt"
	"strings"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// conflictError reports that resources were changed by somebody else since they were read.
type conflictError struct{ text string }

func (e *conflictError) Error() string { return e.text }

func conflictOf(sent *adminv1.Conflicts) *conflictError {
	var lines []string
	for _, c := range sent.GetConflicts() {
		lines = append(lines, conflictText(c))
	}
	return &conflictError{strings.Join(lines, "; ") + "; nothing was changed"}
}

func conflictText(c *adminv1.RevisionConflict) string {
	r := c.GetResource()
	title := titleOf(r.GetGroup(), r.GetKind(), r.GetNamespace(), r.GetName())
	done := "changed"
	switch {
	case c.GetAbsent() && c.GetRevision() == 0:
		return title + " does not exist any more"
	case c.GetAbsent():
		done = "deleted"
	case c.GetExpected() == 0:
		done = "made"
	}
	text := fmt.Sprintf("%s was %s in revision %d", title, done, c.GetRevision())
	if c.GetAuthor() != "" {
		text += " by " + madeBy(c.GetAuthor(), c.GetApplication())
	}
	if c.GetTime() != nil {
		text += " at " + localTime(c.GetTime().AsTime())
	}
	if c.GetMessage() != "" {
		text += fmt.Sprintf(": %q", firstLine(c.GetMessage()))
	}
	return text
}
