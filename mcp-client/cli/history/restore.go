package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/problems"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Restore returns the command restore.
func Restore(s *session.Session) *cobra.Command {
	p := program{s}
	var to string
	var w change.Options
	var only arguments.Scope
	var yes bool
	cmd := &cobra.Command{
		Use:   "restore --to (REVISION | TIME) [KIND [NAME...] | KIND/NAME...]",
		Short: "Make resources what they were, as a new revision",
		Long: `Make resources what they were at a revision or a time, as a new revision, all of them or none. What was made since is deleted, what
was deleted since comes back.

Arguments, --kind and -n narrow it. Without any of them it is the whole mesh, which must be looked at with --dry-run first and then
be meant with --yes. To take back one revision alone, and keep what was changed since, see revert.`,
		Example: `  mcp-client restore --to 1 --dry-run
  mcp-client restore vs/reviews --to 1 -m "as it was"
  mcp-client restore -n shop --to 2030-01-31T15:04:05Z --dry-run`,
		ValidArgsFunction: p.CompleteResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return failure.Usage(cmd, errors.New("say with --to what to go back to; "+whereRevisionsAre(args)))
			}
			at, err := arguments.ParseMoment(to)
			if err != nil {
				return failure.Usage(cmd, err)
			}
			s, err := p.scoped(args, only)
			if err != nil {
				return err
			}
			if err := s.checkRestorable(yes || w.DryRun); err != nil {
				return failure.Usage(cmd, err)
			}
			return p.restore(cmd.Context(), at, s, w)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", arguments.MomentHelp)
	cmd.Flags().BoolVar(&yes, "yes", false, "restore the whole mesh without having looked at it by --dry-run")
	w.DeclareFlags(cmd)
	w.DeclareConfirm(cmd)
	w.DeclareWait(cmd)
	only.DeclareFlags(cmd)
	return cmd
}

// whereRevisionsAre says how to find what there is to go back to.
func whereRevisionsAre(args []string) string {
	return "mcp-client " + strings.Join(append([]string{"history"}, args...), " ") + " lists the revisions"
}

// checkRestorable refuses to restore more than the user named.
func (s scoped) checkRestorable(meant bool) error {
	whole := len(s.kinds)+len(s.namespaces)+len(s.names) == 0
	switch {
	case whole && !meant:
		return errors.New("this restores the whole mesh: look at what it would do with --dry-run, and then say --yes")
	case len(s.names) > 0 && len(s.kinds)*len(s.namespaces)*len(s.names) != len(s.query):
		return errors.New("resources of several kinds or namespaces are restored one command each")
	}
	return nil
}

func (p program) restore(ctx context.Context, at arguments.Moment, s scoped, w change.Options) error {
	req := &adminv1.RestoreRequest{
		To: &adminv1.RestoreRequest_Revision{Revision: at.Revision}, Kinds: s.kinds, Namespaces: s.namespaces, Names: s.names,
		Message: w.Message, DryRun: w.DryRun, Author: change.Author(), ConfirmWithin: w.Confirmation(),
	}
	if !at.Time.IsZero() {
		req.To = &adminv1.RestoreRequest_Time{Time: timestamppb.New(at.Time)}
	}
	resp, err := session.Change(ctx, p.Session, adminv1.AdminServiceClient.Restore, req)
	if err != nil {
		return err
	}
	return w.Conclude(ctx, p.Session, resp)
}

// Revert returns the command revert.
func Revert(s *session.Session) *cobra.Command {
	p := program{s}
	var w change.Options
	var partial bool
	cmd := &cobra.Command{
		Use:   "revert REVISION",
		Short: "Take one revision back, as a new revision",
		Long: `Take one revision back, as a new revision, and leave what other revisions have changed. If one of its resources was changed again since,
nothing is taken back: these resources are told, with who changed them, and the exit code is 3. Nor is anything if the revision has deleted
something of a kind that no program knows any more, for that cannot be made again.

With --partial the others are taken back, and these are left as they are; the exit code is then 1. Look with --dry-run at what that makes of
the mesh: a route may then lead to a host that is gone.`,
		Example: `  mcp-client revert 2 --dry-run
  mcp-client revert 2 -m "it was not the canary"
  mcp-client revert 2 --partial --dry-run`,
		Args: func(cmd *cobra.Command, args []string) error {
			if r, named := arguments.ResourceAmong(args); named {
				return fmt.Errorf("revert takes back a revision, and %s is a resource: mcp-client history %s %s lists its revisions, and mcp-client restore %s --to REVISION makes it what it was then",
					r, r.Kind, r.Name, r)
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			revision, err := parseRevision(args[0])
			if err != nil {
				return failure.Usage(cmd, err)
			}
			return p.revert(cmd.Context(), revision, partial, w)
		},
	}
	cmd.Flags().BoolVar(&partial, "partial", false, "take back what was not changed again since, and leave the rest as it is")
	w.DeclareFlags(cmd)
	w.DeclareWait(cmd)
	return cmd
}

func parseRevision(text string) (int64, error) {
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil || revision < 1 {
		return 0, fmt.Errorf("%q is not a revision, which is a number from 1", text)
	}
	return revision, nil
}

// errNotReverted and errUnknownKinds end a revert that could not take back everything.
var (
	errNotReverted  = errors.New("not all of the revision was taken back: what was changed again since is as it was")
	errUnknownKinds = errors.New("not all of the revision was taken back: what is of a kind that no program knows any more cannot be made again")
)

// unknownKind is the outcome of what cannot be made again.
const unknownKind = "unknown_kind"

// reverted is the printed form of a revert's effect on a resource.
type reverted struct {
	Outcome   string `json:"outcome"`
	Group     string `json:"group"`
	Kind      string `json:"kind"`
	Space     string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	ChangedBy int64  `json:"changedBy,omitempty"`
}

func (p program) revert(ctx context.Context, revision int64, partial bool, w change.Options) error {
	resp, err := session.Change(ctx, p.Session, adminv1.AdminServiceClient.Revert, &adminv1.RevertRequest{
		Revision: revision, Message: w.Message, DryRun: w.DryRun, Author: change.Author(), Whole: !partial,
	})
	if conflict, is := errors.AsType[*failure.Conflict](err); is {
		return p.inTheWay(revision, conflict)
	}
	if err != nil {
		return err
	}
	problems.PrintWarnings(p.Err, problems.WarningsOf(resp))
	var left []string // what restores the resources that were left
	list := []reverted{}
	for _, r := range resp.GetResources() {
		ref := r.GetResource()
		list = append(list, reverted{r.GetOutcome(), ref.GetGroup(), ref.GetKind(), ref.GetNamespace(), ref.GetName(), r.GetChangedBy()})
		if r.GetOutcome() == "conflict" { // asked for with --partial, or a server from before it had a choice
			left = append(left, toRestore(words.ReferenceTo(ref.GetGroup(), ref.GetKind(), ref.GetNamespace(), ref.GetName()), revision-1))
		}
	}
	if err := p.printReverted(resp.GetRevision(), list, w.DryRun); err != nil {
		return err
	}
	err = w.Wait(ctx, p.Session, resp.GetRevision())
	notReverted := leftOut(left, list)
	if err != nil && notReverted != nil {
		return fmt.Errorf("%w; %w", notReverted, err)
	}
	return cmp.Or(notReverted, err)
}

// leftOut says what could not be taken back, if there is something, and what to do about it.
func leftOut(left []string, list []reverted) error {
	switch {
	case len(left) > 0:
		return fmt.Errorf("%w. To lose those changes, too: %s", errNotReverted, someOf(left))
	case slices.ContainsFunc(list, func(r reverted) bool { return r.Outcome == unknownKind }):
		return errUnknownKinds
	}
	return nil
}

// toRestore is the command that makes a resource what it was at a revision.
func toRestore(reference string, revision int64) string {
	return fmt.Sprintf("mcp-client restore %s --to %d", reference, revision)
}

// inTheWay lists what keeps a revision from being taken back, and says what there is to do.
func (p program) inTheWay(revision int64, conflict *failure.Conflict) error {
	var all []string
	for _, c := range conflict.Of {
		fmt.Fprintln(p.Err, c.How)
		all = append(all, toRestore(words.ReferenceTo(c.Group, c.Kind, c.Namespace, c.Name), revision-1))
	}
	return &failure.Conflict{Of: conflict.Of, Text: fmt.Sprintf(
		"nothing of revision %d was taken back, for %s changed again since. --partial takes back the others. To lose those changes, too: %s",
		revision, words.Counted(len(all), "resource was", "resources were"), someOf(all))}
}

// mostToRestore is how many commands an error names.
const mostToRestore = 3

func someOf(commands []string) string {
	if more := len(commands) - mostToRestore; more > 0 {
		return fmt.Sprintf("%s, and so on for %d more", strings.Join(commands[:mostToRestore], ", "), more)
	}
	return strings.Join(commands, ", ")
}

func (p program) printReverted(revision int64, list []reverted, dryRun bool) error {
	if p.Output.IsTree() {
		return p.PrintTree(struct {
			Revision  int64      `json:"revision"`
			DryRun    bool       `json:"dryRun,omitempty"`
			Resources []reverted `json:"resources"`
		}{revision, dryRun, list})
	}
	var b strings.Builder
	for _, r := range list {
		switch {
		case p.Output.Format == output.Name:
			fmt.Fprintln(&b, words.ReferenceTo(r.Group, r.Kind, r.Space, r.Name))
			continue
		case r.Outcome == unknownKind:
			fmt.Fprintf(&b, "%s left as it is, for no program knows its kind any more\n", words.Title(r.Group, r.Kind, r.Space, r.Name))
			continue
		case r.ChangedBy > 0:
			fmt.Fprintf(&b, "%s left as it is, changed by revision %d\n", words.Title(r.Group, r.Kind, r.Space, r.Name), r.ChangedBy)
			continue
		}
		fmt.Fprintf(&b, "%s %s\n", words.Title(r.Group, r.Kind, r.Space, r.Name), r.Outcome)
	}
	if p.Output.Format != output.Name {
		fmt.Fprintln(&b, change.Conclusion(revision, dryRun))
	}
	return p.Print(b.String())
}
