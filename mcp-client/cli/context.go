package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mcp-client/contexts"
)

func (p *session) contextCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "context",
		Short: "Keep what is needed to reach each server, and switch between them",
		Long: `Keep what is needed to reach each server, and switch between them.

A context is a set of flags under a name. Those of the current context, or of the one that --context names, hold where neither a
flag nor a variable of the environment says otherwise. If --server or PGMESH_SERVER names a server and --context nothing, the
current context is left aside altogether: its credentials are for its own server.

The contexts are in ~/.config/pgmesh/config.yaml, or where PGMESH_CONFIG says. A file with a token in it must be yours alone
(mode 0600), which is how it is written.`,
		Example: `  mcp-client context set prod --server mesh.example.com:15020 --namespace shop
  mcp-client context use prod
  mcp-client context list`,
	}
	return family(cmd, p.contextListCommand(), p.contextUseCommand(), p.contextSetCommand(), p.contextDeleteCommand(), p.contextShowCommand())
}

// contexts reads the file of contexts. If change is not nil it applies the change and saves the file.
func (p *session) contexts(change func(*contexts.File) error) (*contexts.File, error) {
	path := contexts.Path(p.Getenv)
	file, err := contexts.Load(path, secretSettings)
	if err != nil || change == nil {
		return file, err
	}
	if err := change(file); err != nil {
		return nil, err
	}
	return file, file.Save(path)
}

func (p *session) completeContexts(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	file, err := p.contexts(nil)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return file.Names(), cobra.ShellCompDirectiveNoFileComp
}

func (p *session) contextListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the contexts",
		Example: "  mcp-client context list\n  mcp-client context list -o name",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			file, err := p.contexts(nil)
			if err != nil {
				return err
			}
			return p.printContexts(file)
		},
	}
}

// contextRow is the printed form of a context.
type contextRow struct {
	Name     string            `json:"name"`
	Current  bool              `json:"current"`
	Settings map[string]string `json:"settings"`
}

func rowOf(file *contexts.File, name string, reveal bool) contextRow {
	settings := maps.Clone(map[string]string(file.Contexts[name]))
	for key, value := range settings {
		if !reveal {
			settings[key] = displayValue(key, value)
		}
	}
	return contextRow{name, name == file.Current, settings}
}

func (p *session) printContexts(file *contexts.File) error {
	rows := []contextRow{}
	for _, name := range file.Names() {
		rows = append(rows, rowOf(file, name, false))
	}
	switch {
	case p.output.isTree():
		return p.printTree(rows)
	case p.output.format == nameFormat:
		for _, r := range rows {
			fmt.Fprintln(p.Out, r.Name)
		}
		return nil
	case len(rows) == 0:
		fmt.Fprintln(p.Err, "there is no context: make one with mcp-client context set")
		return nil
	}
	w := newRows(p.Out)
	w.row("CURRENT", "NAME", "SERVER", "NAMESPACE")
	for _, r := range rows {
		mark := ""
		if r.Current {
			mark = "*"
		}
		w.row(mark, r.Name, orDash(r.Settings["server"]), orDash(r.Settings["namespace"]))
	}
	return w.Flush()
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (p *session) contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "Make a context the current one",
		Example:           "  mcp-client context use prod",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := p.contexts(func(file *contexts.File) error {
				_, err := contextNamed(file, args[0])
				file.Current = args[0]
				return err
			})
			if err == nil {
				_, err = fmt.Fprintf(p.Out, "context %s is the current one\n", args[0])
			}
			return err
		},
	}
}

func (p *session) contextSetCommand() *cobra.Command {
	var unset []string
	var use bool
	cmd := &cobra.Command{
		Use:   "set NAME [FLAGS]",
		Short: "Make a context or change it",
		Long: `Make a context of the flags that are given, or change these flags of one that exists. The first context there is becomes the
current one.`,
		Example: `  mcp-client context set prod --server mesh.example.com:15020 --namespace shop --use
  mcp-client context set local --server 127.0.0.1:15020 --insecure
  mcp-client context set prod --unset namespace`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			_, err := p.contexts(func(file *contexts.File) error {
				context := contexts.Context{}
				maps.Copy(context, file.Contexts[name])
				if err := p.setGiven(cmd, context, unset); err != nil {
					return err
				}
				file.Contexts[name] = context
				if use || len(file.Contexts) == 1 {
					file.Current = name
				}
				return nil
			})
			if err == nil {
				_, err = fmt.Fprintf(p.Out, "context %s set\n", name)
			}
			return err
		},
	}
	cmd.Flags().StringSliceVar(&unset, "unset", nil, "leave this flag to its default; may be given more than once")
	cmd.Flags().BoolVar(&use, "use", false, "make it the current context")
	return cmd
}

// setGiven stores the flags of the command line in a context.
func (p *session) setGiven(cmd *cobra.Command, into contexts.Context, unset []string) error {
	known := contextSettings(cmd.Flags())
	for _, key := range unset {
		if !slices.Contains(known, key) {
			return usage(cmd, fmt.Errorf("--unset: a context keeps no flag %q", key))
		}
		delete(into, key)
	}
	var wrong []error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(known, f.Name) || !p.given[f.Name] {
			return
		}
		value, err := storedValue(f.Name, f.Value.String())
		into[f.Name] = value
		wrong = append(wrong, err)
	})
	return errors.Join(wrong...)
}

func (p *session) contextDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "delete NAME...",
		Short:             "Delete contexts",
		Example:           "  mcp-client context delete staging",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: p.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := p.contexts(func(file *contexts.File) error {
				for _, name := range args {
					if _, err := contextNamed(file, name); err != nil {
						return err
					}
				}
				for _, name := range args {
					delete(file.Contexts, name)
					if file.Current == name {
						file.Current = ""
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			for _, name := range args {
				fmt.Fprintf(p.Out, "context %s deleted\n", name)
			}
			return nil
		},
	}
}

func (p *session) contextShowCommand() *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:               "show [NAME]",
		Short:             "Show a context, or the current one",
		Example:           "  mcp-client context show\n  mcp-client context show prod -o yaml",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := p.contexts(nil)
			if err != nil {
				return err
			}
			name := p.context
			if name == "" {
				name = file.Current
			}
			if len(args) > 0 {
				name = args[0]
			}
			if name == "" {
				return errors.New("there is no current context: choose one with mcp-client context use")
			}
			if _, err := contextNamed(file, name); err != nil {
				return err
			}
			return p.printContext(rowOf(file, name, reveal))
		},
	}
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show secrets too")
	return cmd
}

func (p *session) printContext(r contextRow) error {
	switch {
	case p.output.isTree():
		return p.printTree(r)
	case p.output.format == nameFormat:
		return p.print(r.Name + "\n")
	}
	w := newRows(p.Out)
	w.row("name", r.Name)
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		w.row(key, r.Settings[key])
	}
	return w.Flush()
}
