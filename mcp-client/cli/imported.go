package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// skipped counts documents that do not belong to a mesh, by apiVersion and kind.
type skipped map[foreignKind]int

// foreignKind is a kind that has nothing to do with a mesh.
type foreignKind struct{ apiVersion, kind string }

func (s skipped) add(apiVersion, kind string) { s[foreignKind{apiVersion, kind}]++ }

// skippedKind is the printed form of how many documents of a kind were skipped.
type skippedKind struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Count      int    `json:"count"`
}

func (s skipped) list() []skippedKind {
	var all []skippedKind
	for _, k := range s.sorted() {
		all = append(all, skippedKind{k.apiVersion, k.kind, s[k]})
	}
	return all
}

// sorted lists what was skipped, the most frequent first.
func (s skipped) sorted() []foreignKind {
	return slices.SortedFunc(maps.Keys(s), func(a, b foreignKind) int {
		if s[a] != s[b] {
			return s[b] - s[a]
		}
		return strings.Compare(a.kind+a.apiVersion, b.kind+b.apiVersion)
	})
}

// inWords says what was skipped, and what to do about it if necessary.
func (s skipped) inWords() string {
	if len(s) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprint(&b, "; left out, as it has nothing to do with a mesh:")
	for i, k := range s.sorted() {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %d %s (%s)", s[k], k.kind, k.apiVersion)
	}
	if s[foreignKind{"v1", "Service"}] > 0 {
		b.WriteString(". Services of Kubernetes are not known to this mesh: write a ServiceEntry for each that is routed to")
	}
	return b.String()
}

// importedKind is the printed form of what an import did to the resources of one kind.
type importedKind struct {
	Group      string `json:"group"`
	Kind       string `json:"kind"`
	Created    int    `json:"created"`
	Configured int    `json:"configured"`
	Unchanged  int    `json:"unchanged"`
	Deleted    int    `json:"deleted"`
}

func (i *imported) kinds() []importedKind {
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

// printImported prints what an import did.
func printImported(p *printer, done *imported, left skipped, dryRun bool) error {
	if text := left.inWords(); text != "" {
		fmt.Fprintln(p.Err, strings.TrimPrefix(text, "; "))
	}
	printWarnings(p.Err, done.warnings)
	if p.output.isTree() {
		return printImportedTree(p, done, left, dryRun)
	}
	w := newRows(p.Out)
	w.row("KIND", "CREATED", "CONFIGURED", "UNCHANGED", "DELETED")
	for _, of := range done.kinds() {
		kind, _ := kinds.Lookup(of.Group, of.Kind)
		w.row(word(kind), fmt.Sprint(of.Created), fmt.Sprint(of.Configured), fmt.Sprint(of.Unchanged), fmt.Sprint(of.Deleted))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, o := range done.outcomes {
		if key, known := o.key(); known {
			fmt.Fprintf(p.Out, "%s %s %s\n", word(key.Kind), key.FullName(), o.Action)
		}
	}
	_, err := fmt.Fprintf(p.Out, "%s\n%s", conclusion(done.revision, dryRun), confirmHint(done.confirmBy, done.revision))
	return err
}

func printImportedTree(p *printer, done *imported, left skipped, dryRun bool) error {
	return p.printTree(struct {
		Revision int64          `json:"revision"`
		DryRun   bool           `json:"dryRun,omitempty"`
		Kinds    []importedKind `json:"kinds"`
		Deleted  []outcome      `json:"deleted,omitempty"`
		Skipped  []skippedKind  `json:"skipped,omitempty"`
		Warnings []problem      `json:"warnings,omitempty"`
		Confirm  string         `json:"confirmBy,omitempty"`
	}{done.revision, dryRun, done.kinds(), done.outcomes, left.list(), done.warnings.problems, timeText(done.confirmBy)})
}
