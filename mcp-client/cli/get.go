package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/kinds"
)

const selectorHelp = `only resources with these labels: "app=reviews,tier!=front,version in (v1,v2),!legacy"`

func (p *session) getCommand() *cobra.Command {
	var labels string
	cmd := &cobra.Command{
		Use:   "get (KIND [NAME...] | KIND/NAME... | all)",
		Short: "Print resources as they stand",
		Long: `Print resources as they stand on the server, read over MCP.

A KIND is any name that "mcp-client kinds" lists; several are separated by commas. A NAME may be NAMESPACE/NAME.
Of secrets it prints what is known of them, and never a value: see mcp-client secret.`,
		Example: `  mcp-client get vs
  mcp-client get virtualservice reviews -o yaml
  mcp-client get vs,dr -A -l app=reviews
  mcp-client get all -A -o yaml > mesh.yaml`,
		ValidArgsFunction: p.completeResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && kinds.IsSecretName(args[0]) {
				return listSecrets(cmd.Context(), p, args[1:])
			}
			query, err := parseWanted(args)
			if err != nil {
				return usage(cmd, err)
			}
			selected, err := selector.Parse(labels)
			if err != nil {
				return usage(cmd, err)
			}
			return p.get(cmd.Context(), query, selected)
		},
	}
	cmd.Flags().StringVarP(&labels, "selector", "l", "", selectorHelp)
	return cmd
}

func (p *session) get(ctx context.Context, query []wanted, labels selector.Selector) error {
	all, err := p.read(ctx, kindsOf(query))
	if err != nil {
		return err
	}
	return p.printWanted(query, labels, all.resources)
}

// printWanted prints the matching resources, and returns an error for those that do not exist.
func (p *session) printWanted(query []wanted, labels selector.Selector, all []*kinds.Resource) (err error) {
	found, missing := p.namespace.find(query, all)
	found = slices.DeleteFunc(found, func(r *kinds.Resource) bool { return !labels.Matches(r.Labels) })
	single := len(query) == 1 && query[0].name != ""
	if len(found) == 0 && len(missing) == 0 && p.output.isTable() {
		fmt.Fprintf(p.Err, "nothing found in %s\n", p.namespace)
		return nil
	}
	if len(found) > 0 || !single {
		err = p.printResources(found, single)
	}
	if len(missing) > 0 {
		return errors.Join(err, failuresError(missing))
	}
	return err
}

func kindsOf(query []wanted) []*kinds.Kind {
	var ks []*kinds.Kind
	for _, w := range query {
		if !slices.Contains(ks, w.kind) {
			ks = append(ks, w.kind)
		}
	}
	return ks
}

// find picks the wanted resources, and returns an error for each that does not exist.
func (n namespace) find(query []wanted, all []*kinds.Resource) (found []*kinds.Resource, missing []error) {
	taken := map[kinds.Key]bool{}
	for _, w := range query {
		before := len(taken)
		for _, r := range all {
			if n.holds(w, r.Key()) && !taken[r.Key()] {
				taken[r.Key()] = true
				found = append(found, r)
			}
		}
		if w.name != "" && len(taken) == before && !slices.ContainsFunc(found, func(r *kinds.Resource) bool { return n.holds(w, r.Key()) }) {
			missing = append(missing, n.notFound(w, all))
		}
	}
	return found, missing
}

// holds reports whether a resource matches a wanted one in this namespace.
func (n namespace) holds(w wanted, k kinds.Key) bool {
	if w.kind != k.Kind || w.name != "" && w.name != k.Name {
		return false
	}
	if w.namespace != "" {
		return w.namespace == k.Namespace
	}
	return n.all || !k.Kind.Namespaced || k.Namespace == n.name
}

// notFound says that a resource does not exist, and suggests similar ones.
func (n namespace) notFound(w wanted, all []*kinds.Resource) error {
	key := w.in(n)
	if n.all && w.namespace == "" {
		key.Namespace = ""
	}
	var near, elsewhere []string
	for _, r := range all {
		switch {
		case n.holds(wanted{kind: w.kind, namespace: w.namespace}, r.Key()):
			near = append(near, r.Name)
		case r.Kind == w.kind && r.Name == w.name:
			elsewhere = append(elsewhere, r.Namespace)
		}
	}
	switch name := nearest(w.name, near); {
	case len(elsewhere) > 0:
		return fmt.Errorf("%s: not found (there is one in the namespace %s)", key, elsewhere[0])
	case name != "":
		return fmt.Errorf("%s: not found (did you mean %q?)", key, name)
	}
	return fmt.Errorf("%s: not found", key)
}
