package resources

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// Validate returns the command validate.
func Validate(s *session.Session) *cobra.Command {
	p := program{s}
	var from files.Sources
	var strict bool
	cmd := &cobra.Command{
		Use:   "validate [-f] PATH...",
		Short: "Check files without any server",
		Long: `Check files without any server: their structure, and the rules that a server would refuse a resource by.

A PATH is a file, a folder with its folders, or - for standard input. ` + files.OfFolders + `

All mistakes are told, each with its file, line and field.
What only goes wrong between resources, such as a route to a host that there is not, the server knows: see apply --dry-run.
What is right and yet pgmesh's discovery does not act on is warned of.

Documents of kinds that have nothing to do with a mesh are counted and left out; with --strict they are mistakes.`,
		Example: `  mcp-client validate mesh/
  mcp-client validate reviews.yaml -o json
  kubectl get vs,dr -A -o yaml | mcp-client validate -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if from.Paths, from.Recursive = append(from.Paths, args...), true; len(from.Paths) == 0 {
				return failure.Usage(cmd, errors.New("name the files to check, or - for standard input"))
			}
			return p.validate(from, strict)
		},
	}
	from.DeclareAsKubectl(cmd)
	cmd.Flags().BoolVar(&strict, "strict", false, "take documents of kinds that have nothing to do with a mesh for mistakes")
	return cmd
}

func (p program) validate(from files.Sources, strict bool) error {
	paths, err := from.Files()
	if err != nil {
		return err
	}
	shown := files.NewProgress(p.Err, paths)
	defer shown.Clear()
	from.TellOn(p.Err)
	reading := &files.Reader{From: &from, In: p.In, Namespace: p.Namespace.Name, Skipped: files.Skipped{}, Strict: strict, Shown: shown}
	seen := map[kinds.Key]*kinds.Document{}
	for _, file := range paths {
		err := reading.File(file, func(d *kinds.Document) error {
			reading.RefuseDuplicate(seen, d)
			return reading.NoteUnsupported(d)
		})
		if err != nil {
			return err
		}
	}
	shown.Clear()
	return p.printValidated(reading, reading.Conclusion(paths))
}

// printValidated prints the result. In formats for programs, mistakes are part of the output and
// not an error message.
func (p program) printValidated(r *files.Reader, err error) error {
	var refused *failure.Refused
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	if refused == nil {
		refused = &failure.Refused{}
	}
	if p.Output.IsTree() {
		if err := p.PrintTree(struct {
			Resources  int          `json:"resources"`
			Violations kinds.Errors `json:"violations"`
			Warnings   kinds.Errors `json:"warnings,omitempty"`
		}{r.Read, append(kinds.Errors{}, refused.Violations...), r.Unsupported}); err != nil {
			return err
		}
	}
	if len(refused.Violations) > 0 {
		return &failure.Invalid{Violations: refused.Violations, Printed: p.Output.IsTree()}
	}
	if !p.Output.IsTree() {
		for _, v := range r.Unsupported {
			fmt.Fprintln(p.Err, "warning:", v.Error())
		}
	}
	r.Skipped.Tell(p.Err)
	if p.Output.IsTable() {
		_, err = fmt.Fprintf(p.Out, "%s\n", words.Counted(r.Read, "resource is valid", "resources are valid"))
		return err
	}
	return nil
}
