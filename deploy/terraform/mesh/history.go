package mesh

import (
	"context"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// recent is how many revisions of a resource are asked for to tell who changed it.
const recent = 20

// Changed says who has changed or deleted a resource last, since a revision, and how often it was changed.
func (m *Mesh) Changed(ctx context.Context, key kinds.Key, since int64) (string, error) {
	namespace := key.Namespace
	if namespace == "" {
		namespace = "-"
	}
	answer, err := call(ctx, m, m.admin.History, &adminv1.HistoryRequest{
		Kinds: arguments.FullNames([]*kinds.Kind{key.Kind}), Namespaces: []string{namespace}, Names: []string{key.Name}, PageSize: recent,
	})
	if err != nil {
		return "", err
	}
	var newer []*adminv1.Revision
	for _, r := range answer.GetRevisions() {
		if r.GetRevision() > since && len(r.GetChanges()) > 0 {
			newer = append(newer, r)
		}
	}
	if len(newer) == 0 {
		return "", ErrAbsent
	}
	last := newer[0]
	text := connect.ConflictText(&adminv1.RevisionConflict{
		Resource: connect.RefOf(key), Expected: since, Revision: last.GetRevision(), Author: last.GetAuthor(), Application: last.GetApplication(),
		Message: last.GetMessage(), Time: last.GetTime(), Absent: last.GetChanges()[0].GetOperation() == "delete",
	})
	if more := len(newer) - 1; more > 0 {
		text += ", after " + words.Counted(more, "other change", "other changes")
	}
	return text, nil
}

// mostTold bounds how many drifts are told of in one run.
const mostTold = 20

// Tells reports whether one more drift is to be told of, and whether it is the first that is not.
func (m *Mesh) Tells() (tell, last bool) {
	n := m.told.Add(1)
	return n <= mostTold, n == mostTold+1
}

// HistoryOf is the command that shows what was changed of a resource.
func HistoryOf(key kinds.Key) string {
	command := "mcp-client history " + strings.ToLower(key.Kind.Name) + "." + key.Kind.Group + "/" + key.Name
	if key.Namespace != "" {
		command += " -n " + key.Namespace
	}
	return command
}
