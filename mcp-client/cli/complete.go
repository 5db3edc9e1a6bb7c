package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
)

// completionTimeout bounds how long a completion may keep the user waiting.
const completionTimeout = time.Second

// completeKinds completes names of kinds.
func (p *session) completeKinds(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
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

// completeResources completes a kind, and then the names of its resources on the server.
func (p *session) completeResources(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	word, _, slash := strings.Cut(typed, "/")
	prefix := word + "/"
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		word, prefix, slash = args[0], "", true
	}
	if !slash {
		return p.completeKinds(cmd, args, typed)
	}
	kind, err := kinds.ByName(word)
	if err != nil || p.beginCompletion(cmd) != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return p.liveNames(cmd.Context(), kind, prefix)
}

// completeReferences completes kinds, and names after KIND/, for any number of arguments.
func (p *session) completeReferences(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return p.completeResources(cmd, nil, typed)
}

// beginCompletion applies the settings, and keeps the user waiting no longer than a second.
func (p *session) beginCompletion(cmd *cobra.Command) error {
	if err := p.applySettings(cmd); err != nil {
		return err
	}
	p.server.timeout = min(p.server.timeout, completionTimeout)
	return nil
}

func (p *session) liveNames(ctx context.Context, kind *kinds.Kind, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	live, err := p.server.state(ctx, []*kinds.Kind{kind}, &events{})
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
