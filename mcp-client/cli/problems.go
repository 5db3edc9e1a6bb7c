package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// problem is the printed form of a problem between resources.
type problem struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Group    string `json:"group"`
	Kind     string `json:"kind"`
	Space    string `json:"namespace,omitempty"`
	Name     string `json:"name"`
	Path     string `json:"path,omitempty"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
}

// String formats a problem for a warning.
func (p problem) String() string {
	text := fmt.Sprintf("%s %s/%s: ", p.Kind, p.Space, p.Name)
	if p.Path != "" {
		text += p.Path + ": "
	}
	text += p.Message
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

func problemsOf(sent []*adminv1.Problem) []problem {
	read := make([]problem, len(sent))
	for i, s := range sent {
		r := s.GetResource()
		read[i] = problem{
			s.GetSeverity(), s.GetCode(), r.GetGroup(), r.GetKind(), r.GetNamespace(), r.GetName(),
			s.GetPath(), s.GetMessage(), s.GetHint(),
		}
	}
	return read
}

// warnings are the problems that a change causes.
type warnings struct {
	problems []problem
	omitted  int32
}

type warningAnswer interface {
	GetWarnings() []*adminv1.Problem
	GetOmittedWarnings() int32
}

func warningsOf(answer warningAnswer) warnings {
	return warnings{problemsOf(answer.GetWarnings()), answer.GetOmittedWarnings()}
}

func printWarnings(out io.Writer, w warnings) {
	for _, problem := range w.problems {
		fmt.Fprintln(out, "warning:", problem)
	}
	if w.omitted > 0 {
		fmt.Fprintf(out, "warning: and %d more problems (see mcp-client problems)\n", w.omitted)
	}
}

// errProblems ends a command that has listed errors.
var errProblems = errors.New("there are problems of severity error")

func (p *session) problemsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "problems",
		Short: "List what is wrong between resources, such as routes that lead nowhere",
		Long: `List what is wrong between resources as they stand: routes to hosts, ports and subsets that do not exist, hosts and ports
with two owners, selectors that select nothing.

The exit code is 1 if one of the problems is an error, and 0 if all are warnings or mere information.`,
		Example: `  mcp-client problems -A
  mcp-client problems -n shop -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.problems(cmd.Context()) },
	}
}

func (p *session) problems(ctx context.Context) error {
	req := &adminv1.ProblemsRequest{}
	if !p.namespace.all {
		req.Namespaces = []string{p.namespace.name}
	}
	resp, err := ask(ctx, p, adminv1.AdminServiceClient.Problems, req)
	if err != nil {
		return err
	}
	found := problemsOf(resp.GetProblems())
	if err := p.printProblems(found); err != nil {
		return err
	}
	for _, f := range found {
		if f.Severity == "error" {
			return errProblems
		}
	}
	return nil
}

func (p *session) printProblems(found []problem) error {
	if p.output.isTree() {
		return p.printTree(found)
	}
	if len(found) == 0 {
		fmt.Fprintf(p.Err, "no problem found in %s\n", p.namespace)
		return nil
	}
	w := newRows(p.Out)
	w.row("SEVERITY", "CODE", "RESOURCE", "PATH", "MESSAGE")
	for _, f := range found {
		message := f.Message
		if p.output.format == wide && f.Hint != "" {
			message += " (" + f.Hint + ")"
		}
		w.row(f.Severity, f.Code, fmt.Sprintf("%s %s/%s", f.Kind, f.Space, f.Name), f.Path, message)
	}
	return w.Flush()
}
