package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
)

// completeWithin bounds how long a completion may keep somebody waiting who types.
const completeWithin = time.Second

// completeKinds completes the names of kinds.
func (p *Program) completeKinds(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, k := range kinds.All() {
		name := k.Plural
		if meant, err := kinds.ByName(name); err != nil || meant != k {
			name += "." + k.Group
		}
		if strings.HasPrefix(name, typed) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeResources completes a kind and then, as the server has them now, the names of its resources.
func (p *Program) completeResources(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	word, _, slash := strings.Cut(typed, "/")
	prefix := word + "/"
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		word, prefix, slash = args[0], "", true
	}
	if !slash {
		return p.completeKinds(cmd, args, typed)
	}
	kind, err := kinds.ByName(word)
	if err != nil || p.settle(cmd) != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return p.liveNames(cmd.Context(), kind, prefix)
}

// completeReferences completes kinds, and after KIND/ names, each time anew.
func (p *Program) completeReferences(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.completeResources(cmd, nil, typed)
}

func (p *Program) liveNames(ctx context.Context, kind *kinds.Kind, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	p.server.timeout = min(p.server.timeout, completeWithin)
	live, err := p.server.state(ctx, []*kinds.Kind{kind}, &link{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, r := range live.resources {
		if p.namespace.holds(wanted{kind: kind}, r.Key()) {
			names = append(names, prefix+r.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
