// Package problems tells what is wrong between resources, by itself and as a warning of a change.
package problems

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// program is a run of mcp-client, with the commands of this package.
type program struct {
	*session.Session

	fails *threshold // from which severity a problem is a failure
}

// Problem is the printed form of a problem between resources.
type Problem struct {
	Severity string `json:"severity"`
	Code     string `json:"code"`
	Group    string `json:"group"`
	Kind     string `json:"kind"`
	Space    string `json:"namespace,omitempty"`
	Name     string `json:"name"`
	Path     string `json:"path,omitempty"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
	// File and Line are where the resource begins, if it was read from a file.
	File string `json:"file,omitempty"`
	Line int    `json:"line,omitempty"`
}

// resource names what a problem is about, with the place if it is in a file.
func (p Problem) resource() string {
	text := fmt.Sprintf("%s %s/%s", p.Kind, p.Space, p.Name)
	if p.File != "" {
		text = fmt.Sprintf("%s:%d: %s", p.File, max(p.Line, 1), text)
	}
	return text
}

// String formats a problem for a warning.
func (p Problem) String() string {
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

// Of reads problems as the server sends them.
func Of(sent []*adminv1.Problem) []Problem {
	read := make([]Problem, len(sent))
	for i, s := range sent {
		r := s.GetResource()
		read[i] = Problem{
			Severity: s.GetSeverity(), Code: s.GetCode(), Group: r.GetGroup(), Kind: r.GetKind(), Space: r.GetNamespace(), Name: r.GetName(),
			Path: s.GetPath(), Message: s.GetMessage(), Hint: s.GetHint(),
		}
	}
	return read
}

// Warnings are the problems that a change causes.
type Warnings struct {
	Problems []Problem
	omitted  int32
}

// Answer is the answer to a change, as far as it warns.
type Answer interface {
	GetWarnings() []*adminv1.Problem
	GetOmittedWarnings() int32
}

// WarningsOf reads the warnings of an answer.
func WarningsOf(answer Answer) Warnings {
	return Warnings{Of(answer.GetWarnings()), answer.GetOmittedWarnings()}
}

// Violations are the same for a command that lets none pass.
func (w Warnings) Violations() (all kinds.Errors) {
	for _, one := range w.Problems {
		all = append(all, kinds.Violation{Kind: one.Kind, Namespace: one.Space, Name: one.Name, Path: one.Path, Reason: one.Message, Hint: one.Hint})
	}
	if w.omitted > 0 {
		all = append(all, kinds.Violation{Reason: fmt.Sprintf("and %d more problems", w.omitted)})
	}
	return all
}

// mostPrinted is how many warnings of a change are printed.
const mostPrinted = 10

// PrintWarnings prints what a change causes.
func PrintWarnings(out io.Writer, w Warnings) {
	printed := w.Problems[:min(len(w.Problems), mostPrinted)]
	for _, problem := range printed {
		fmt.Fprintln(out, "warning:", problem)
	}
	if more := len(w.Problems) - len(printed) + int(w.omitted); more > 0 {
		fmt.Fprintf(out, "warning: and %d more problems (see mcp-client problems; of a dry run: mcp-client analyze --live FILES)\n", more)
	}
}

// Command returns the command problems, which asks the server of files by wouldCause.
func Command(s *session.Session, wouldCause WouldCause) *cobra.Command {
	fails := threshold(severityError)
	p := program{Session: s, fails: &fails}
	var from files.Sources
	var live bool
	cmd := &cobra.Command{
		Use:     "problems [PATH...]",
		Aliases: []string{"analyze"},
		Short:   "List what is wrong between resources, such as routes that lead nowhere",
		Long: `List what is wrong between resources as they stand: routes to hosts, ports and subsets that do not exist, hosts and ports
with two owners, selectors that select nothing. What proxies refuse is among them, as "refused": of the resource that it was made from, or of
the Proxy if that is not known. It is called analyze, too.

Of a PATH, which is a file, a folder with its folders, a URL, or - for standard input, it needs no server: it lists mistakes, what proxies do not act on,
and names of resources, hosts and subsets that nothing in these files has. Give it all files of a mesh. It does not find what only a server does:
ports that do not exist, hosts and ports with two owners, policies that keep each other from counting, routes that are never reached.

With --live the server tries the files on top of what it has, changes nothing, and tells of all problems that they would bring. Those that the
mesh has already are left out, and counted: mcp-client problems lists them. A name that the mesh has is known, so that the files may be a few. It takes the right to apply them. Selectors that select nothing are told of without a PATH alone.

The exit code is 1 if one of the problems is an error, and 0 if all are warnings or mere information; --failure-threshold warning has
warnings count, too. -o sarif is for programs that show problems beside the code, and -o github for annotations in GitHub's workflows.`,
		Example: `  mcp-client problems -A
  mcp-client problems -n shop -o json
  mcp-client analyze mesh/
  mcp-client analyze --live mesh/reviews.yaml -o github
  mcp-client analyze mesh/ reviews.yaml -o sarif > problems.sarif`,
		Annotations: map[string]string{output.Reports: "yes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			from.Paths, from.Recursive = append(from.Paths, args...), true
			switch {
			case len(from.Paths) == 0 && live:
				return failure.Usage(cmd, errors.New("--live is for files: name them. Without, problems are those of the server"))
			case len(from.Paths) == 0:
				return p.problems(cmd.Context())
			}
			if live {
				return p.ofFiles(cmd.Context(), from, wouldCause)
			}
			return p.ofFiles(cmd.Context(), from, nil)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&live, "live", false, "of files: have the server try them on what it has, and tell what problems they would bring")
	f.BoolVar(&live, "use-kube", false, "istioctl's word for --live")
	_ = f.MarkHidden("use-kube") // which exists
	from.DeclareAsKubectl(cmd)
	f.Var(&fails, "failure-threshold", "from which severity on a problem makes the exit code 1: info, warning or error")
	return cmd
}

func (p program) problems(ctx context.Context) error {
	req := &adminv1.ProblemsRequest{}
	if !p.Namespace.All {
		req.Namespaces = []string{p.Namespace.Name}
	}
	resp, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.Problems, req)
	if err != nil {
		return err
	}
	found := append(Of(resp.GetProblems()), p.refused(ctx)...)
	if len(found) == 0 {
		defer p.TellIfUnknown(ctx, nil)
	}
	return p.conclude(found, "problem", p.Namespace.String())
}

// conclude prints problems, and fails if one is an error.
func (p program) conclude(found []Problem, what, where string) error {
	if err := p.printProblems(found, what, where); err != nil {
		return err
	}
	for _, f := range found {
		if p.fails.reached(f.Severity) {
			return fmt.Errorf("there are problems of severity %s", f.Severity)
		}
	}
	return nil
}

func (p program) printProblems(found []Problem, what, where string) error {
	switch p.Output.Format {
	case output.SARIF:
		return p.printSARIF(found)
	case output.GitHub:
		return p.printAnnotations(found)
	case output.Table, output.Wide, output.YAML, output.JSON, output.Name, output.JSONPath, output.GoTemplate, output.CustomColumns, output.Terraform:
	}
	if p.Output.IsTree() {
		return p.PrintTree(found)
	}
	if len(found) == 0 {
		fmt.Fprintf(p.Err, "no %s found in %s\n", what, where)
		return nil
	}
	w := output.NewRows(p.Out)
	w.Row("SEVERITY", "CODE", "RESOURCE", "PATH", "MESSAGE")
	hidden := false
	for _, f := range found {
		message := f.Message
		if f.Hint != "" {
			if p.Output.Format == output.Wide {
				message += " (" + f.Hint + ")"
			}
			hidden = p.Output.Format != output.Wide
		}
		w.Row(f.Severity, f.Code, f.resource(), f.Path, message)
	}
	if err := w.Flush(); err != nil || !hidden {
		return err
	}
	fmt.Fprintln(p.Err, "what to do about them: -o wide")
	return nil
}
