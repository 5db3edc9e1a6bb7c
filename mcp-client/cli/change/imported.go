package change

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/problems"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// importedKind is the printed form of what an import did to the resources of one kind.
type importedKind struct {
	Group      string `json:"group"`
	Kind       string `json:"kind"`
	Created    int    `json:"created"`
	Configured int    `json:"configured"`
	Unchanged  int    `json:"unchanged"`
	Deleted    int    `json:"deleted"`
}

func (i *Imported) kinds() []importedKind {
	var of []importedKind
	for _, k := range kinds.All() { // in the order of the registry
		done := i.of[kindName{k.Group, k.Name}]
		if done == nil {
			continue
		}
		count := func(a adminv1.Outcome_Action) int { return done[actions[a]] }
		of = append(of, importedKind{
			k.Group, k.Name, count(adminv1.Outcome_ACTION_CREATED), count(adminv1.Outcome_ACTION_CONFIGURED),
			count(adminv1.Outcome_ACTION_UNCHANGED), count(adminv1.Outcome_ACTION_DELETED),
		})
	}
	return of
}

// Revision is the revision that the import made; 0 if there was nothing to change.
func (i *Imported) Revision() int64 { return i.revision }

// Changed is how many resources are not what they were.
func (i *Imported) Changed() int { return i.changed }

// Told has the first of them in words: "virtualservice shop/web configured", with what differs below if that was set.
func (i *Imported) Told() (texts []string) {
	for _, o := range i.told {
		texts = append(texts, strings.Join(append([]string{o.inWords()}, o.Fields...), "\n    "))
	}
	return texts
}

// WithoutDeleted is what else the import did: Print names what it deleted.
func (i *Imported) WithoutDeleted() *Imported {
	rest := *i
	rest.told = slices.DeleteFunc(slices.Clone(i.told), func(o outcome) bool { return o.Action == actions[adminv1.Outcome_ACTION_DELETED] })
	rest.changed -= len(i.outcomes)
	return &rest
}

// NamingOverwritten is the same import, of which Print names what was there and changed, too.
func (i *Imported) NamingOverwritten() *Imported {
	naming := *i
	naming.names = true
	return &naming
}

// Reconfigured are those of the told that were there, and have changed.
func (i *Imported) Reconfigured() map[kinds.Key]bool {
	keys := map[kinds.Key]bool{}
	for _, o := range i.told {
		if key, known := o.key(); known && o.Action == actions[adminv1.Outcome_ACTION_CONFIGURED] {
			keys[key] = true
		}
	}
	return keys
}

// SetFields says in which fields a told resource differs.
func (i *Imported) SetFields(of kinds.Key, fields []string) {
	for at, o := range i.told {
		if key, known := o.key(); known && key == of {
			i.told[at].Fields = fields
		}
	}
}

// Warnings are the problems that the import causes.
func (i *Imported) Warnings() problems.Warnings { return i.warnings }

// Print prints what the import did, and what was left out of it.
func (i *Imported) Print(p *output.Printer, left files.Skipped, dryRun bool) error {
	if text := left.InWords(); text != "" {
		fmt.Fprintln(p.Err, strings.TrimPrefix(text, "; "))
	}
	problems.PrintWarnings(p.Err, i.warnings)
	if p.Output.IsTree() {
		return i.printTree(p, left, dryRun)
	}
	w := output.NewRows(p.Out)
	w.Row("KIND", "CREATED", "CONFIGURED", "UNCHANGED", "DELETED")
	for _, of := range i.kinds() {
		kind, _ := kinds.Lookup(of.Group, of.Kind)
		w.Row(words.Kind(kind), fmt.Sprint(of.Created), fmt.Sprint(of.Configured), fmt.Sprint(of.Unchanged), fmt.Sprint(of.Deleted))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if i.names {
		i.printOverwritten(p)
	}
	for _, o := range i.outcomes {
		if text := o.inWords(); text != "" {
			fmt.Fprintln(p.Out, text)
		}
	}
	_, err := fmt.Fprintf(p.Out, "%s\n%s", Conclusion(i.revision, dryRun), confirmHint(i.confirmBy, i.revision))
	return err
}

func (i *Imported) printOverwritten(p *output.Printer) {
	for _, o := range i.overwrote {
		fmt.Fprintln(p.Out, o.inWords())
	}
	all := 0
	for _, of := range i.kinds() {
		all += of.Configured
	}
	if more := all - len(i.overwrote); more > 0 {
		fmt.Fprintf(p.Out, "and %d more configured\n", more)
	}
}

func (i *Imported) printTree(p *output.Printer, left files.Skipped, dryRun bool) error {
	return p.PrintTree(struct {
		Revision int64               `json:"revision"`
		DryRun   bool                `json:"dryRun,omitempty"`
		Kinds    []importedKind      `json:"kinds"`
		Changes  []outcome           `json:"changes,omitempty"`
		Omitted  int                 `json:"omittedChanges,omitempty"`
		Deleted  []outcome           `json:"deleted,omitempty"`
		Skipped  []files.SkippedKind `json:"skipped,omitempty"`
		Warnings []problems.Problem  `json:"warnings,omitempty"`
		Confirm  string              `json:"confirmBy,omitempty"`
	}{i.revision, dryRun, i.kinds(), i.told, i.changed - len(i.told), i.outcomes, left.List(), i.warnings.Problems, timeText(i.confirmBy)})
}
