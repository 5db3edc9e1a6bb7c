package gitops

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/wait"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/problems"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	"github.com/pgmesh/pgmesh/mcp-client/gitrepo"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// keeper keeps the mesh as the repository has it.
type keeper struct {
	*syncing

	prune *adminv1.Prune
	shown *shown

	applied  string // the id of the commit that the mesh was made to be
	revision int64  // the newest one when the mesh was last held against the commit
	failure  string // that was told last, and is not told again while it lasts
	drifted  string // the same of drift
}

// once brings the newest commit into the mesh, or tells what it would change.
func (k *keeper) once(ctx context.Context) error {
	commit, err := k.repository.Fetch(ctx)
	if err != nil {
		return err
	}
	if !k.DryRun {
		live, err := k.isLive(ctx, commit)
		if err != nil {
			return err
		}
		if live {
			return k.onceMore(ctx, commit)
		}
	}
	done, left, err := k.bring(ctx, commit, k.DryRun)
	if err != nil {
		return err
	}
	if k.DryRun {
		k.sayFields(ctx, done)
	}
	if err := done.Print(k.Printer, left, k.DryRun); err != nil {
		return err
	}
	if k.DryRun && done.Changed() > 0 {
		if !k.Output.IsTree() { // which has them
			k.list(done.WithoutDeleted())
		}
		return failure.ErrDifferent
	}
	return k.Wait(ctx, k.Session, done.Revision())
}

// onceMore looks for drift from a commit that is in the mesh already.
func (k *keeper) onceMore(ctx context.Context, commit *gitrepo.Commit) error {
	drifted, left, err := k.send(ctx, "", true)
	if err != nil {
		return err
	}
	if drifted.Changed() > 0 && k.drift != revert {
		return k.reportOnce(ctx, commit, drifted, left)
	}
	done := drifted
	if drifted.Changed() > 0 {
		if done, left, err = k.send(ctx, putBack+k.messageOf(commit), false); err != nil {
			return err
		}
	}
	if err := done.Print(k.Printer, left, false); err != nil {
		return err
	}
	return k.Wait(ctx, k.Session, done.Revision())
}

// reportOnce tells of drift, and fails as a difference does.
func (k *keeper) reportOnce(ctx context.Context, commit *gitrepo.Commit, drifted *change.Imported, left files.Skipped) error {
	k.sayFields(ctx, drifted)
	k.tellDrift(commit, drifted)
	if k.Output.IsTree() {
		if err := drifted.Print(k.Printer, left, true); err != nil {
			return err
		}
	}
	return failure.ErrDifferent
}

// forever looks for commits and for drift again and again. What fails is told once, and tried again.
func (k *keeper) forever(ctx context.Context) error {
	for {
		err := k.pass(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		k.shown.passed(k.applied, err)
		k.tellFailure(err)
		if !wait.For(ctx, k.interval) {
			return ctx.Err()
		}
	}
}

// pass brings a new commit into the mesh, or else looks for drift.
func (k *keeper) pass(ctx context.Context) error {
	commit, err := k.repository.Fetch(ctx)
	if err != nil {
		return err
	}
	newest, err := k.newest(ctx)
	if err != nil {
		return err
	}
	live, err := k.isLive(ctx, commit)
	switch {
	case err != nil:
		return err
	case !live:
		return k.apply(ctx, commit, newest)
	case k.applied == "":
		fmt.Fprintf(k.Out, "commit %s %q of %s: in the mesh already\n", commit.Short(), commit.Subject, commit.Author)
		k.applied = commit.ID
	case newest == k.revision:
		return nil
	}
	drifted, _, err := k.send(ctx, "", true)
	if err != nil {
		return err
	}
	k.shown.drifted(drifted.Changed())
	k.sayFields(ctx, drifted)
	if drifted.Changed() > 0 && k.drift == revert {
		return k.putRight(ctx, commit, newest, drifted)
	}
	k.tellDrift(commit, drifted)
	k.revision = newest
	return nil
}

// apply brings a commit into the mesh.
func (k *keeper) apply(ctx context.Context, commit *gitrepo.Commit, newest int64) error {
	done, left, err := k.bring(ctx, commit, false)
	if err != nil {
		return fmt.Errorf("commit %s %q: %w", commit.Short(), commit.Subject, err)
	}
	fmt.Fprintf(k.Out, "commit %s %q of %s: %s, %d changed\n", commit.Short(), commit.Subject, commit.Author, change.Conclusion(done.Revision(), false), done.Changed())
	if text := left.InWords(); text != "" {
		fmt.Fprintln(k.Err, strings.TrimPrefix(text, "; "))
	}
	problems.PrintWarnings(k.Err, done.Warnings())
	k.list(done)
	k.applied, k.drifted = commit.ID, ""
	k.shown.drifted(0)
	k.revision = max(newest, done.Revision()) // and no later one, which may be somebody's drift
	return k.Wait(ctx, k.Session, done.Revision())
}

// bring brings a commit into the mesh. If it is to be strict, a commit that would cause problems is refused.
func (k *keeper) bring(ctx context.Context, commit *gitrepo.Commit, dryRun bool) (*change.Imported, files.Skipped, error) {
	if k.strict {
		would, _, err := k.send(ctx, "", true)
		if err != nil {
			return nil, nil, err
		}
		if wrong := would.Warnings().Violations(); len(wrong) > 0 {
			return nil, nil, &failure.Refused{Violations: wrong}
		}
	}
	return k.send(ctx, k.messageOf(commit), dryRun)
}

// putBack begins the message of a revision that makes the mesh again what a commit has.
const putBack = "put back: "

// putRight makes the mesh what the commit has, after somebody has changed it.
func (k *keeper) putRight(ctx context.Context, commit *gitrepo.Commit, newest int64, drifted *change.Imported) error {
	done, _, err := k.send(ctx, putBack+k.messageOf(commit), false)
	if err != nil {
		return err
	}
	fmt.Fprintf(k.Out, "put back what somebody had changed: %s, %d changed\n", change.Conclusion(done.Revision(), false), drifted.Changed())
	k.list(drifted)
	k.shown.drifted(0)
	k.revision = max(newest, done.Revision())
	return nil
}

// send has the mesh be what the files of the repository say.
func (k *keeper) send(ctx context.Context, message string, dryRun bool) (*change.Imported, files.Skipped, error) {
	from, paths, err := k.files()
	if err != nil {
		return nil, nil, err
	}
	bar := files.NewProgress(k.Err, paths)
	defer bar.Clear()
	if message != "" { // what is left out is told of a commit, and not each time that drift is looked for
		from.Tell = func(line string) {
			fmt.Fprintln(k.Err, strings.ReplaceAll(line, k.repository.Tree()+string(filepath.Separator), ""))
		}
	}
	reading := &files.Reader{From: from, Namespace: k.Namespace.Name, Skipped: files.Skipped{}, Strict: k.strict, Shown: bar}
	start := k.Start()
	start.Message, start.DryRun, start.Prune = message, dryRun, k.prune
	done, err := change.Import(ctx, &k.Server, start, bar, reading.All(paths))
	return done, reading.Skipped, k.within(err)
}

// files lists the files of the repository that are read.
func (k *keeper) files() (*files.Sources, []string, error) {
	from := &files.Sources{Recursive: true}
	for _, path := range k.paths {
		from.Paths = append(from.Paths, filepath.Join(k.repository.Tree(), path))
	}
	paths, err := from.Files()
	return from, paths, k.within(err)
}

// within names files as the repository does.
func (k *keeper) within(err error) error {
	tree := k.repository.Tree() + string(filepath.Separator)
	if refused, is := errors.AsType[*failure.Refused](err); is {
		for i := range refused.Violations {
			v := &refused.Violations[i]
			v.File, v.Reason, v.Hint = strings.ReplaceAll(v.File, tree, ""), strings.ReplaceAll(v.Reason, tree, ""), strings.ReplaceAll(v.Hint, tree, "")
		}
		return refused
	}
	if err != nil && strings.Contains(err.Error(), k.repository.Tree()) {
		return errors.New(strings.ReplaceAll(strings.ReplaceAll(err.Error(), tree, ""), k.repository.Tree(), "the repository"))
	}
	return err
}

// newest is the newest revision that the caller may see; 0 if there is none.
func (k *keeper) newest(ctx context.Context) (int64, error) {
	answer, err := session.Ask(ctx, k.Session, adminv1.AdminServiceClient.History, &adminv1.HistoryRequest{PageSize: 1})
	if len(answer.GetRevisions()) == 0 {
		return 0, err
	}
	return answer.GetRevisions()[0].GetRevision(), err
}

// list names what is not what it was.
func (k *keeper) list(done *change.Imported) {
	for _, text := range done.Told() {
		fmt.Fprintln(k.Out, "  "+text)
	}
	if more := done.Changed() - len(done.Told()); more > 0 {
		fmt.Fprintf(k.Out, "  and %d more\n", more)
	}
}

// tellFailure tells why the mesh is not as the repository has it.
func (k *keeper) tellFailure(err error) {
	if err == nil {
		k.failure = ""
		return
	}
	var text strings.Builder
	for _, v := range failure.MistakesOf(err) {
		fmt.Fprintln(&text, v.Error())
	}
	fmt.Fprintf(&text, "error: %v; trying again\n", err)
	if isNew(&k.failure, text.String()) {
		fmt.Fprint(k.Err, text.String())
	}
}

// tellDrift tells what somebody has changed beside the repository.
func (k *keeper) tellDrift(commit *gitrepo.Commit, drifted *change.Imported) {
	if drifted.Changed() == 0 {
		k.drifted = ""
		return
	}
	if isNew(&k.drifted, strings.Join(drifted.Told(), "\n")) {
		fmt.Fprintf(k.Err, "drift: %s not as commit %s says; this would put that right (mcp-client history tells whose change it was):\n",
			words.Counted(drifted.Changed(), "resource is", "resources are"), commit.Short())
		if !k.Output.IsTree() { // which has them
			k.list(drifted)
		}
	}
}

// isNew reports whether a text is another one than was told before, and keeps it.
func isNew(told *string, text string) bool {
	before := *told
	*told = text
	return before != text
}
