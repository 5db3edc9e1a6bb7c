package cli

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
)

func (p *session) validateCommand() *cobra.Command {
	var from sources
	var strict bool
	cmd := &cobra.Command{
		Use:   "validate PATH...",
		Short: "Check files without any server",
		Long: `Check files without any server: their structure, and the rules that a server would refuse a resource by.

A PATH is a file, a folder with its folders, or - for standard input. All mistakes are told, each with its file, line and field.
What only goes wrong between resources, such as a route to a host that there is not, the server knows: see apply --dry-run.
What is right and yet pgmesh's discovery does not act on is warned of.

Documents of kinds that have nothing to do with a mesh are counted and left out; with --strict they are mistakes.`,
		Example: `  mcp-client validate mesh/
  mcp-client validate reviews.yaml -o json
  kubectl get vs,dr -A -o yaml | mcp-client validate -`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			from.paths, from.recursive = args, true
			return p.validate(from, strict)
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "take documents of kinds that have nothing to do with a mesh for mistakes")
	return cmd
}

func (p *session) validate(from sources, strict bool) error {
	files, err := from.files()
	if err != nil {
		return err
	}
	shown := newProgress(p.Err, files)
	defer shown.clear()
	reading := &fileReader{in: p.In, namespace: p.namespace.name, skipped: skipped{}, strict: strict, shown: shown}
	seen := map[kinds.Key]*kinds.Document{}
	for _, file := range files {
		err := reading.file(file, func(d *kinds.Document) error {
			reading.refuseDuplicate(seen, d)
			return reading.noteUnsupported(d)
		})
		if err != nil {
			return err
		}
	}
	shown.clear()
	return p.printValidated(reading, reading.conclusion(files))
}

// refuseDuplicate reports resources that are in two files. The parser reports those that are twice in one.
func (r *fileReader) refuseDuplicate(seen map[kinds.Key]*kinds.Document, d *kinds.Document) {
	key := d.Resource.Key()
	first, dup := seen[key]
	if !dup {
		seen[key] = &kinds.Document{File: d.File, Index: d.Index, Line: d.Line}
		return
	}
	r.wrong = append(r.wrong, kinds.Violation{
		File: d.File, Document: d.Index, Line: d.Line, Kind: key.Kind.Name, Namespace: key.Namespace, Name: key.Name, Path: "metadata.name",
		Reason: fmt.Sprintf("duplicate of %s, document %d, line %d", first.File, first.Index, first.Line), Hint: "name each resource once",
	})
}

// noteUnsupported collects fields that discovery does not act on, which are no mistakes.
func (r *fileReader) noteUnsupported(d *kinds.Document) error {
	found, err := d.Resource.Kind.Unsupported(d.Spec)
	if err != nil {
		return err
	}
	for _, v := range found {
		v.File, v.Document, v.Line = d.File, d.Index, d.Line
		v.Namespace, v.Name = d.Resource.Namespace, d.Resource.Name
		if len(r.unsupported) < maxMistakes {
			r.unsupported = append(r.unsupported, v)
		}
	}
	return nil
}

// printValidated prints the result. In formats for programs, mistakes are part of the output and not an error
// message.
func (p *session) printValidated(r *fileReader, err error) error {
	var refused *refusedError
	if err != nil && !errors.As(err, &refused) {
		return err
	}
	if refused == nil {
		refused = &refusedError{}
	}
	if p.output.isTree() {
		if err := p.printTree(struct {
			Resources  int          `json:"resources"`
			Violations kinds.Errors `json:"violations"`
			Warnings   kinds.Errors `json:"warnings,omitempty"`
		}{r.read, append(kinds.Errors{}, refused.violations...), r.unsupported}); err != nil {
			return err
		}
	}
	if len(refused.violations) > 0 {
		return &invalidError{refused.violations, p.output.isTree()}
	}
	if !p.output.isTree() {
		for _, v := range r.unsupported {
			fmt.Fprintln(p.Err, "warning:", v.Error())
		}
	}
	if text := r.skipped.inWords(); text != "" {
		fmt.Fprintln(p.Err, text[len("; "):])
	}
	if p.output.isTable() {
		_, err = fmt.Fprintf(p.Out, "%s\n", counted(r.read, "resource is valid", "resources are valid"))
		return err
	}
	return nil
}

// counted formats a number with its noun.
func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
