package resources

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

// choosing says which resources of some kinds a command is about, in place of their names.
type choosing struct {
	labels string
	all    bool
}

func (c *choosing) declareFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&c.labels, "selector", "l", "", session.SelectorHelp)
	cmd.Flags().BoolVar(&c.all, "all", false, "everything of the kinds, in the namespace")
}

func (c choosing) given() bool { return c.all || c.labels != "" }

// chosen is a resource as it was when it was looked at.
type chosen struct {
	key     kinds.Key
	version int64
}

func keysOf(all []chosen) (keys []kinds.Key) {
	for _, one := range all {
		keys = append(keys, one.key)
	}
	return keys
}

var errChoice = errors.New("name resources, or kinds with -l or with --all, or files with -f")

// choose lists what has labels, or everything of the kinds, and says so if that is nothing.
func (p program) choose(cmd *cobra.Command, args []string, c choosing) (all []chosen, err error) {
	query, labels, err := p.choiceOf(cmd, args, c)
	if err != nil {
		return nil, failure.Usage(cmd, err)
	}
	listed, err := p.listed(cmd.Context(), query, c.labels)
	if err != nil {
		return nil, err
	}
	for _, r := range listed {
		m := r.GetMetadata()
		kind, err := kinds.ByAPIVersion(r.GetApiVersion(), r.GetKind())
		if err == nil && labels.Matches(m.GetLabels()) {
			all = append(all, chosen{kinds.Key{Kind: kind, Namespace: m.GetNamespace(), Name: m.GetName()}, m.GetResourceVersion()})
		}
	}
	if len(all) == 0 {
		p.NothingFound(query)
		p.TellUnknownNamespace(cmd.Context(), query, nil, nil)
	}
	return all, nil
}

// choiceOf reads what to choose of which kinds.
func (p program) choiceOf(cmd *cobra.Command, args []string, c choosing) ([]arguments.Wanted, selector.Selector, error) {
	query, err := arguments.Parse(args)
	named := slices.ContainsFunc(query, func(q arguments.Wanted) bool { return q.Name != "" })
	switch {
	case errors.Is(err, arguments.ErrSecrets) && cmd.Name() == "delete":
		err = errors.New("delete takes secrets by their names alone: mcp-client get secrets -l LABELS -o name lists names")
	case named || c.all && c.labels != "":
		err = errChoice
	case err == nil && args[0] == "all" && !p.Namespace.Chosen && !p.Namespace.All:
		err = fmt.Errorf("to %s what is of all kinds, say where: -n NAMESPACE, or -A", cmd.Name())
	}
	labels, wrong := selector.Parse(c.labels)
	if err == nil {
		err = wrong
	}
	return query, labels, err
}

// namedOrChosen are the resources that a command is about: those that are named, or chosen.
func (p program) namedOrChosen(cmd *cobra.Command, args []string, c choosing) ([]kinds.Key, error) {
	if !c.given() {
		return p.named(args, cmd.Name())
	}
	all, err := p.choose(cmd, args, c)
	return keysOf(all), err
}
