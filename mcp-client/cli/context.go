package cli

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	"github.com/pgmesh/pgmesh/mcp-client/contexts"
)

func contextCommand(s *session.Session) *cobra.Command {
	p := program{s}
	cmd := &cobra.Command{
		Use:     "context",
		Aliases: []string{"config"}, // kubectl's and kumactl's name for it
		Short:   "Keep what is needed to reach each server, and switch between them",
		Long: `Keep what is needed to reach each server, and switch between them.

A context is a set of flags under a name. Those of the current context hold where neither a flag nor a variable of the environment
says otherwise. Those of the one that --context names hold where no flag does; if PGMESH_SERVER names another server, the variables
that say how to speak with a server are left aside. If --server or PGMESH_SERVER names another server than the current context
does, and --context nothing, the current context is left aside altogether: its credentials are for its own server.

The contexts are in ~/.config/pgmesh/config.yaml, or where PGMESH_CONFIG says. A file with a token in it must be yours alone
(mode 0600), which is how it is written.`,
		Example: `  mcp-client context set prod --server mesh.example.com:15020 --namespace shop
  mcp-client context use prod
  mcp-client context list`,
	}
	return arguments.Listing(cmd, p.contextListCommand(), p.contextUseCommand(), p.contextSetCommand(), p.contextDeleteCommand(), p.contextShowCommand())
}

func (p program) contextListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the contexts",
		Example: "  mcp-client context list\n  mcp-client context list -o name",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			file, err := p.Contexts(nil)
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
			settings[key] = session.DisplayValue(key, value)
		}
	}
	return contextRow{name, name == file.Current, settings}
}

func (p program) printContexts(file *contexts.File) error {
	rows := []contextRow{}
	for _, name := range file.Names() {
		rows = append(rows, rowOf(file, name, false))
	}
	switch {
	case p.Output.IsTree():
		return p.PrintTree(rows)
	case p.Output.Format == output.Name:
		for _, r := range rows {
			fmt.Fprintln(p.Out, r.Name)
		}
		return nil
	case len(rows) == 0:
		fmt.Fprintln(p.Err, "there is no context: make one with mcp-client context set")
		return nil
	}
	w := output.NewRows(p.Out)
	w.Row("CURRENT", "NAME", "SERVER", "NAMESPACE")
	for _, r := range rows {
		mark := ""
		if r.Current {
			mark = "*"
		}
		w.Row(mark, r.Name, words.OrDash(r.Settings["server"]), words.OrDash(r.Settings["namespace"]))
	}
	return w.Flush()
}

func (p program) contextUseCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "use NAME",
		Short:             "Make a context the current one",
		Example:           "  mcp-client context use prod",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.CompleteContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := p.Contexts(func(file *contexts.File) error {
				err := session.CheckContext(file, args[0])
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

func (p program) contextSetCommand() *cobra.Command {
	var unset []string
	var use, current bool
	cmd := &cobra.Command{
		Use:   "set (NAME | --current) [FLAGS]",
		Short: "Make a context or change it",
		Long: `Make a context of the flags that are given, or change these flags of one that exists. The first context there is becomes the
current one.`,
		Example: `  mcp-client context set prod --server mesh.example.com:15020 --namespace shop --use
  mcp-client context set local --server 127.0.0.1:15020 --insecure
  mcp-client context set prod --unset namespace
  mcp-client context set --current -n shop`,
		Args: func(cmd *cobra.Command, args []string) error {
			if current && len(args) > 0 {
				return errors.New("--current stands for the name of the current context: leave one of both out")
			}
			if current {
				return nil
			}
			return cobra.ExactArgs(1)(cmd, args)
		},
		ValidArgsFunction: p.CompleteContexts,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			_, err := p.Contexts(func(file *contexts.File) error {
				if name = file.Current; !current {
					name = args[0]
				}
				if name == "" {
					return errNoCurrent
				}
				context := contexts.Context{}
				maps.Copy(context, file.Contexts[name])
				if err := p.StoreGiven(cmd, context, unset); err != nil {
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
	cmd.Flags().BoolVar(&current, "current", false, "change the current context, in place of a NAME")
	return cmd
}

func (p program) contextDeleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "delete NAME...",
		Short:             "Delete contexts",
		Example:           "  mcp-client context delete staging",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: p.CompleteContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			_, err := p.Contexts(func(file *contexts.File) error {
				for _, name := range args {
					if err := session.CheckContext(file, name); err != nil {
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

var errNoCurrent = errors.New("there is no current context: choose one with mcp-client context use")

func (p program) contextShowCommand() *cobra.Command {
	var reveal bool
	cmd := &cobra.Command{
		Use:               "show [NAME]",
		Short:             "Show a context, or the current one",
		Example:           "  mcp-client context show\n  mcp-client context show prod -o yaml",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.CompleteContexts,
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := p.Contexts(nil)
			if err != nil {
				return err
			}
			name := p.Context
			if name == "" {
				name = file.Current
			}
			if len(args) > 0 {
				name = args[0]
			}
			if name == "" {
				return errNoCurrent
			}
			if err := session.CheckContext(file, name); err != nil {
				return err
			}
			return p.printContext(rowOf(file, name, reveal))
		},
	}
	cmd.Flags().BoolVar(&reveal, "reveal", false, "show secrets too")
	return cmd
}

func (p program) printContext(r contextRow) error {
	switch {
	case p.Output.IsTree():
		return p.PrintTree(r)
	case p.Output.Format == output.Name:
		return p.Print(r.Name + "\n")
	}
	w := output.NewRows(p.Out)
	w.Row("name", r.Name)
	for _, key := range slices.Sorted(maps.Keys(r.Settings)) {
		w.Row(key, r.Settings[key])
	}
	return w.Flush()
}
