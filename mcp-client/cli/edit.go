package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/terminal"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/envoy"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func (p *Program) editCommand() *cobra.Command {
	var w why
	cmd := &cobra.Command{
		Use:   "edit (KIND NAME... | KIND/NAME...)",
		Short: "Change resources in an editor",
		Long: `Change resources in an editor: $VISUAL, or $EDITOR, or vi. What is saved is applied as one revision, if the resources are still what
they were when the editor was opened.

What is refused is opened again, with the reason above it. To give up, save nothing more or empty the file; what was written so far is
then kept, and the program says where.`,
		Example: `  mcp-client edit vs/reviews -m "shift 20 % to v2"
  EDITOR="sed -i s/100/50/" mcp-client edit vs reviews ratings`,
		ValidArgsFunction: p.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := parseWanted(args)
			if err != nil {
				return &usageError{cmd, err}
			}
			e := &editing{program: p, why: w}
			for _, q := range query {
				if q.name == "" || p.namespace.all && q.namespace == "" {
					return &usageError{cmd, errors.New("edit takes the names of resources")}
				}
				e.keys = append(e.keys, q.in(p.namespace))
			}
			return e.run(cmd.Context())
		},
	}
	w.declareFlags(cmd)
	w.declareConfirm(cmd)
	return cmd
}

// editing is one edit: what is edited, which revision of it was read, and the file that it is in.
type editing struct {
	program *Program
	why     why
	keys    []kinds.Key

	expected []*adminv1.ExpectedRevision
	path     string
}

func (e *editing) run(ctx context.Context) error {
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
	for {
		edited, err := e.open(ctx, withReason(reason, text))
		switch {
		case err != nil:
			return e.kept(err, edited, original)
		case edited == original, strings.TrimSpace(edited) == "":
			if reason == "" {
				_, err = fmt.Fprintln(e.program.Err, "nothing was edited")
				return errors.Join(err, os.Remove(e.path))
			}
			return e.kept(errors.New("given up"), text, original)
		case reason != "" && edited == text:
			return e.kept(errors.New("what was refused was saved again as it was"), text, original)
		}
		err = e.apply(ctx, edited)
		mistakes := mistakesOf(err)
		if len(mistakes) == 0 {
			return e.kept(err, edited, original)
		}
		text, reason = edited, mistakes.Error()
	}
}

// read asks for the resources as they are stored, and remembers which revision of each it was.
func (e *editing) read(ctx context.Context) (string, error) {
	var parts []string
	for _, key := range e.keys {
		resp, err := ask(ctx, e.program, adminv1.AdminServiceClient.Get, &adminv1.GetRequest{Resource: refOf(key)})
		if err != nil {
			return "", err
		}
		text, err := documentText(resp.GetResource())
		if err != nil {
			return "", err
		}
		parts = append(parts, text)
		e.expected = append(e.expected, &adminv1.ExpectedRevision{
			Resource: refOf(key), Revision: resp.GetResource().GetMetadata().GetResourceVersion(),
		})
	}
	return strings.Join(parts, "---\n"), nil
}

// reasonMark begins the lines that are not part of what is edited.
const reasonMark = "#! "

func withReason(reason, text string) string {
	if reason == "" {
		return text
	}
	var b strings.Builder
	b.WriteString(reasonMark + "This was refused. Mend it and save, or save nothing to give up.\n")
	for line := range strings.Lines(reason) {
		b.WriteString(reasonMark + strings.TrimSuffix(line, "\n") + "\n")
	}
	return b.String() + text
}

func withoutReason(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, reasonMark) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// open lets a person edit the text, and returns what came of it.
func (e *editing) open(ctx context.Context, text string) (string, error) {
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
	// A shell takes an editor with arguments apart as everywhere else.
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$@"`, editor, e.path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.In, terminal.Exact(p.Out), terminal.Exact(p.Err)
	if err := cmd.Run(); err != nil {
		return text, fmt.Errorf("run the editor %s: %w (VISUAL or EDITOR names another)", editor, err)
	}
	edited, err := os.ReadFile(e.path)
	return withoutReason(string(bytes.TrimLeft(edited, "\ufeff"))), err
}

// apply sends what was edited.
func (e *editing) apply(ctx context.Context, text string) error {
	p := e.program
	parser := kinds.Parser{DefaultNamespace: p.namespace.name, Examine: envoy.Examine}
	documents, err := parser.Parse("", []byte(text))
	if wrong, ok := errors.AsType[kinds.Errors](err); ok {
		return &refusedError{wrong}
	}
	if err != nil {
		return err
	}
	for _, d := range documents {
		if v, foreign := e.foreign(d); foreign {
			return &refusedError{kinds.Errors{v}}
		}
	}
	return p.applyDocuments(ctx, documents, e.why, e.expected...)
}

// foreign finds a resource that was not opened: one that was given another name would leave the old one behind.
func (e *editing) foreign(d *kinds.Document) (kinds.Violation, bool) {
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

// kept removes the file, unless there is something in it that went nowhere: then the error says where it is.
func (e *editing) kept(err error, text, original string) error {
	if err == nil || text == original {
		return errors.Join(err, os.Remove(e.path))
	}
	if wrote := os.WriteFile(e.path, []byte(text), 0o600); wrote != nil {
		return errors.Join(err, wrote)
	}
	return fmt.Errorf("%w. What was edited is in %s", err, e.path)
}
