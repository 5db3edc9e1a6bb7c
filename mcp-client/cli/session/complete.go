package session

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// completionTimeout bounds how long a completion may keep the user waiting.
const completionTimeout = time.Second

// CompleteKinds completes names of kinds.
func (s *Session) CompleteKinds(_ *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
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

// CompleteResources completes a kind, and then the names of its resources on the server.
func (s *Session) CompleteResources(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	word, _, slash := strings.Cut(typed, "/")
	prefix := word + "/"
	if len(args) > 0 && !strings.Contains(args[0], "/") {
		word, prefix, slash = args[0], "", true
	}
	if !slash {
		return s.CompleteKinds(cmd, args, typed)
	}
	kind, err := kinds.ByName(word)
	if err != nil || s.BeginCompletion(cmd) != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return s.liveNames(cmd.Context(), kind, prefix)
}

// CompleteReferences completes kinds, and names after KIND/, for any number of arguments.
func (s *Session) CompleteReferences(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return s.CompleteResources(cmd, nil, typed)
}

// BeginCompletion applies the settings, and keeps the user waiting no longer than a second.
func (s *Session) BeginCompletion(cmd *cobra.Command) error {
	if err := s.ApplySettings(cmd); err != nil {
		return err
	}
	s.Server.Timeout = min(s.Server.Timeout, completionTimeout)
	return nil
}

func (s *Session) liveNames(ctx context.Context, kind *kinds.Kind, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	live, err := s.Server.Read(ctx, []*kinds.Kind{kind}, &connect.Events{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, r := range live.Resources {
		if s.Namespace.Holds(arguments.Wanted{Kind: kind}, r.Key()) {
			names = append(names, prefix+r.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// CompleteNamespaces completes the name of a namespace that has resources on the server.
func (s *Session) CompleteNamespaces(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if s.BeginCompletion(cmd) != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	live, err := s.Server.Read(cmd.Context(), kinds.All(), &connect.Events{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return live.Namespaces(), cobra.ShellCompDirectiveNoFileComp
}

// CompleteContexts completes the name of a context.
func (s *Session) CompleteContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	file, err := s.Contexts(nil)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return file.Names(), cobra.ShellCompDirectiveNoFileComp
}

func completeProtocols(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	var names []cobra.Completion
	for _, p := range mcp.Protocols() {
		names = append(names, string(p))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
