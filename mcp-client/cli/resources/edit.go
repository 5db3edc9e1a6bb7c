package resources

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/envoy"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/history"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Edit returns the command edit.
func Edit(s *session.Session) *cobra.Command {
	p := program{s}
	var w change.Options
	cmd := &cobra.Command{
		Use:   "edit (KIND NAME... | KIND/NAME...)",
		Short: "Change resources in an editor",
		Long: `Change resources in an editor: $VISUAL, or $EDITOR, or vi. What is saved is applied as one revision, if the resources are still what
they were when the editor was opened.

The file has the metadata.resourceVersion of each resource, so that it can be applied later, too, if the program leaves it behind.

What is refused is opened again, with the reason above it. To give up, save nothing more or empty the file; what was written so far is
then kept with the reason, and the program says where. An editor that is a script, and saves the same once more, ends with the reason.`,
		Example: `  mcp-client edit vs/reviews -m "shift 20 % to v2"
  EDITOR="sed -i s/100/50/" mcp-client edit vs reviews ratings`,
		ValidArgsFunction: p.CompleteResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := arguments.Parse(args)
			if err != nil {
				return failure.Usage(cmd, err)
			}
			e := &editor{program: p, why: w}
			for _, q := range query {
				if q.Name == "" || p.Namespace.All && q.Namespace == "" {
					return failure.Usage(cmd, errors.New("edit takes the names of resources"))
				}
				e.keys = append(e.keys, q.In(p.Namespace))
			}
			return e.run(cmd.Context())
		},
	}
	w.DeclareFlags(cmd)
	w.DeclareConfirm(cmd)
	w.DeclareWait(cmd)
	return cmd
}

// editor is one run of edit: the resources, the revisions at which they were read, and the file.
type editor struct {
	program program
	why     change.Options
	keys    []kinds.Key

	expected []*adminv1.ExpectedRevision
	path     string
}

func (e *editor) run(ctx context.Context) error {
	original, err := e.read(ctx)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp("", "mcp-client-edit-*.yaml")
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	e.path = file.Name()
	text, reason := original, ""
	var refused error
	for opened := 1; ; opened++ {
		edited, err := e.open(ctx, withReason(reason, text))
		switch {
		case err != nil:
			return e.keepFile(err, edited, original)
		case edited == original, strings.TrimSpace(edited) == "":
			if reason == "" {
				_, err = fmt.Fprintln(e.program.Err, "nothing was edited")
				return errors.Join(err, os.Remove(e.path))
			}
			return e.keepFile(errors.New("given up"), withReason(reason, text), original)
		case reason != "" && edited == text:
			return e.keepFile(fmt.Errorf("what was refused was saved again as it was: %w", refused), withReason(reason, text), original)
		}
		err = e.apply(ctx, edited)
		mistakes := failure.MistakesOf(err)
		if len(mistakes) == 0 {
			return e.keepFile(err, edited, original)
		}
		text, reason, refused = edited, mistakes.Error(), err
		if opened == mostOpened && !terminal.Is(e.program.Err) {
			return e.keepFile(fmt.Errorf("opened %d times, and refused each time: %w", opened, refused), withReason(reason, text), original)
		}
	}
}

// mostOpened bounds how often a file is opened where nobody is there to give up: an editor that is a
// script may change what it changes each time, and mend nothing.
const mostOpened = 10

// read gets the resources as stored, and notes their revisions.
func (e *editor) read(ctx context.Context) (string, error) {
	var parts []string
	for _, key := range e.keys {
		resp, err := session.Ask(ctx, e.program.Session, adminv1.AdminServiceClient.Get, &adminv1.GetRequest{Resource: connect.RefOf(key)})
		if err != nil {
			return "", err
		}
		text, err := history.DocumentText(resp.GetResource())
		if err != nil {
			return "", err
		}
		revision := resp.GetResource().GetMetadata().GetResourceVersion()
		parts = append(parts, versioned(text, revision))
		e.expected = append(e.expected, &adminv1.ExpectedRevision{Resource: connect.RefOf(key), Revision: revision})
	}
	return strings.Join(parts, "---\n"), nil
}

// versioned adds the revision at which a resource was read: the file may be left behind, and whoever
// applies it then must not overwrite what others have changed since.
func versioned(text string, revision int64) string {
	const metadata = "\nmetadata:\n"
	return strings.Replace(text, metadata, fmt.Sprintf("%s  resourceVersion: %q\n", metadata, fmt.Sprint(revision)), 1)
}

// reasonPrefix begins the comment lines that say why an edit was refused. They are removed before
// parsing.
const reasonPrefix = "#! "

func withReason(reason, text string) string {
	if reason == "" {
		return text
	}
	var b strings.Builder
	b.WriteString(reasonPrefix + "This was refused. Mend it and save, or save nothing to give up.\n")
	for line := range strings.Lines(reason) {
		b.WriteString(reasonPrefix + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String() + text
}

func withoutReason(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, reasonPrefix) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// open runs the user's editor on the text and returns the result, which there is even if the editor
// fails: who ends it so may have saved before.
func (e *editor) open(ctx context.Context, text string) (string, error) {
	if err := os.WriteFile(e.path, []byte(text), 0o600); err != nil {
		return text, err
	}
	p := e.program
	editor := p.Getenv("VISUAL")
	if editor == "" {
		editor = p.Getenv("EDITOR")
	}
	if editor == "" {
		editor = "vi"
	}
	// The shell splits an editor with arguments, as other programs do.
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$@"`, editor, e.path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.In, terminal.Exact(p.Out), terminal.Exact(p.Err)
	failed := cmd.Run()
	saved, err := os.ReadFile(e.path)
	edited := withoutReason(string(bytes.TrimLeft(saved, "\ufeff")))
	if failed == nil {
		return edited, err
	}
	if strings.TrimSpace(edited) == "" {
		edited = withoutReason(text)
	}
	return edited, fmt.Errorf("run the editor %s: %w (VISUAL or EDITOR names another); nothing was changed", editor, failed)
}

// apply sends the edited text.
func (e *editor) apply(ctx context.Context, text string) error {
	p := e.program
	parser := kinds.Parser{DefaultNamespace: p.Namespace.Name, Examine: envoy.Examine}
	documents, err := parser.Parse("", []byte(text))
	if wrong, ok := errors.AsType[kinds.Errors](err); ok {
		return &failure.Refused{Violations: wrong}
	}
	if err != nil {
		return err
	}
	for _, d := range documents {
		if v, foreign := e.foreign(d); foreign {
			return &failure.Refused{Violations: kinds.Errors{v}}
		}
	}
	return change.Apply(ctx, p.Session, documents, e.why, e.expected...)
}

// foreign reports a resource that was not opened. Renaming a resource would leave the old one
// behind.
func (e *editor) foreign(d *kinds.Document) (kinds.Violation, bool) {
	for _, k := range e.keys {
		if d.Resource.Key() == k {
			return kinds.Violation{}, false
		}
	}
	r := d.Resource
	return kinds.Violation{
		Document: d.Index, Line: d.Line, Kind: r.Kind.Name, Namespace: r.Namespace, Name: r.Name, Path: "metadata.name",
		Reason: "is not what was opened", Hint: "keep kind, name and namespace; apply makes new resources",
	}, true
}

// keepFile removes the file, unless it has changes that were not applied. Then the error names the
// file.
func (e *editor) keepFile(err error, text, original string) error {
	_, applied := errors.AsType[*failure.Committed](err)
	if err == nil || applied || text == original {
		return errors.Join(err, os.Remove(e.path))
	}
	if wrote := os.WriteFile(e.path, []byte(text), 0o600); wrote != nil {
		return errors.Join(err, wrote)
	}
	return fmt.Errorf("%w. What was edited is in %s", err, e.path)
}
