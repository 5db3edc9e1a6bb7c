// Package snapshots has the commands that keep the whole state of a server in a file.
package snapshots

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/internal/selector"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/change"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	"github.com/pgmesh/pgmesh/mcp-client/snapshot"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// program is a run of mcp-client, with the commands of this package.
type program struct{ *session.Session }

// Command returns the command snapshot.
func Command(s *session.Session) *cobra.Command {
	p := program{s}
	return arguments.Family(&cobra.Command{
		Use:   "snapshot",
		Short: "Keep the whole state of a server in a file, look at it, and put it back",
		Long: `Keep the whole state of a server in a file, look at it, and put it back.

A snapshot is what a server serves over MCP, of pgmesh or of others, at one moment. The file is text, a JSON value a line, with a
checksum at its end; a name that ends in .gz makes it compressed. To have the resources as files for people, use export.`,
	}, p.snapshotSaveCommand(), p.snapshotShowCommand(), p.snapshotLoadCommand())
}

func (p program) snapshotSaveCommand() *cobra.Command {
	var only arguments.Scope
	cmd := &cobra.Command{
		Use:   "save FILE",
		Short: "Write the state of the server to a file",
		Long: `Write the state of the server to a file, all of it or none: a file that is there is replaced at the end. Of a pgmesh server it is the
state of one revision. - is standard output.`,
		Example: `  mcp-client snapshot save monday.snapshot.gz
  mcp-client snapshot save vs.snapshot --kind vs -n default`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return p.saveSnapshot(cmd.Context(), args[0], only) },
	}
	only.DeclareFlags(cmd)
	return cmd
}

func (p program) saveSnapshot(ctx context.Context, path string, only arguments.Scope) error {
	ks, err := only.Kinds()
	if err != nil {
		return err
	}
	read, err := p.ReadWhole(ctx, ks)
	if err != nil {
		return err
	}
	read.Narrow(ks, p.Namespace.Requested())
	h := snapshot.Header{Server: p.Server.Address, Revision: read.Revision, Taken: time.Now().UTC()}
	var entries []snapshot.Entry
	for _, r := range read.Resources {
		entries = append(entries, snapshot.Entry{Resource: r, Version: read.Versions[r.Key()]})
	}
	if len(entries) == 0 {
		defer p.TellIfUnknown(ctx, nil)
	}
	if path == files.Stdin { // "-" stands for standard output here
		return snapshot.Write(terminal.Exactly(p.Out), h, entries)
	}
	if err := snapshot.Save(path, h, entries); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "%s in %s\n", words.Counted(len(entries), "resource", "resources"), path)
	return err
}

// openSnapshot reads a snapshot from a file or from standard input.
func (p program) openSnapshot(path string) (snapshot.Header, *connect.State, error) {
	if path == files.Stdin {
		h, entries, err := snapshot.Read(p.In)
		return h, connect.FromSnapshot(h, entries), err
	}
	h, entries, err := snapshot.Open(path)
	return h, connect.FromSnapshot(h, entries), err
}

func (p program) snapshotShowCommand() *cobra.Command {
	var labels string
	cmd := &cobra.Command{
		Use:   "show FILE [KIND [NAME...] | KIND/NAME... | all]",
		Short: "Print what a snapshot is of, or resources in it",
		Long: `Print what a snapshot is of and how many resources of each kind it has; or, with the arguments and flags of get, resources in it. No
server is needed.`,
		Example: `  mcp-client snapshot show monday.snapshot.gz
  mcp-client snapshot show monday.snapshot.gz vs reviews -o yaml`,
		Args: cobra.MinimumNArgs(1),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return p.CompleteKinds(cmd, args[1:], typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return p.showSnapshot(args[0])
			}
			query, err := arguments.Parse(args[1:])
			if err != nil {
				return failure.Usage(cmd, err)
			}
			selected, err := selector.Parse(labels)
			if err != nil {
				return failure.Usage(cmd, err)
			}
			_, read, err := p.openSnapshot(args[0])
			if err != nil {
				return err
			}
			return p.PrintFound(query, selected, read.Resources, nil)
		},
	}
	cmd.Flags().StringVarP(&labels, "selector", "l", "", session.SelectorHelp)
	return cmd
}

// snapshotSummary is the printed form of a snapshot's contents.
type snapshotSummary struct {
	snapshot.Header

	Resources int                 `json:"resources"`
	Kinds     []connect.KindCount `json:"kinds"`
}

func (p program) showSnapshot(path string) error {
	h, read, err := p.openSnapshot(path)
	if err != nil {
		return err
	}
	summary := snapshotSummary{h, len(read.Resources), connect.CountKinds(read.Resources)}
	if p.Output.IsTree() {
		return p.PrintTree(summary)
	}
	if p.Output.Format == output.Name {
		return p.PrintResources(read.Resources, false, nil)
	}
	w := output.NewRows(p.Out)
	w.Row("server", h.Server)
	w.Row("revision", words.Revision(h.Revision))
	w.Row("taken", words.LocalTime(h.Taken))
	w.Row("resources", fmt.Sprint(summary.Resources))
	for _, k := range summary.Kinds {
		kind, _ := kinds.Lookup(k.Group, k.Kind)
		w.Row("  "+words.Kind(kind), fmt.Sprint(k.Count))
	}
	return w.Flush()
}

// loadOptions are the options of snapshot load.
type loadOptions struct {
	change.Options

	prune, yes bool
}

func (p program) snapshotLoadCommand() *cobra.Command {
	var l loadOptions
	var only arguments.Scope
	cmd := &cobra.Command{
		Use:   "load FILE",
		Short: "Put what a snapshot has back, all of it or nothing",
		Long: `Put what a snapshot has on a pgmesh server, as one revision or not at all.

With --prune, the server then has nothing else: what is not in the snapshot is deleted, in all namespaces or in that of -n, and of the
kinds of --kind if there are any. Look at it with --dry-run first.`,
		Example: `  mcp-client snapshot load monday.snapshot.gz --prune --dry-run
  mcp-client snapshot load monday.snapshot.gz -m "back to monday"`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if l.prune && !l.yes && !l.DryRun {
				return failure.Usage(cmd, errors.New("--prune deletes resources: look at what it would do with --dry-run, and then say --yes"))
			}
			return p.loadSnapshot(cmd.Context(), args[0], l, only)
		},
	}
	l.DeclareFlags(cmd)
	l.DeclareConfirm(cmd)
	only.DeclareFlags(cmd)
	cmd.Flags().BoolVar(&l.prune, "prune", false, "delete what is not in the snapshot")
	cmd.Flags().BoolVar(&l.yes, "yes", false, "prune without having looked at it by --dry-run")
	return cmd
}

func (p program) loadSnapshot(ctx context.Context, path string, l loadOptions, only arguments.Scope) error {
	ks, err := only.Kinds()
	if err != nil {
		return err
	}
	_, read, err := p.openSnapshot(path)
	if err != nil {
		return err
	}
	read.Narrow(ks, p.Namespace.Requested())
	start := &adminv1.ImportStart{Message: l.Message, DryRun: l.DryRun, Author: change.Author(), ConfirmWithin: l.Confirmation()}
	if l.prune {
		if start.Prune, err = p.pruneOf(ctx, read, ks); err != nil {
			return err
		}
	}
	shown := files.NewProgress(p.Err, []string{path})
	defer shown.Clear()
	done, err := change.Import(ctx, &p.Server, start, shown, func(send func(*kinds.Document) error) error {
		for _, r := range read.Resources {
			spec, err := r.SpecJSON()
			if err != nil {
				return err
			}
			if err := send(&kinds.Document{Resource: r, Spec: spec, File: path}); err != nil {
				return err
			}
		}
		return nil
	})
	shown.Clear()
	if err != nil {
		return err
	}
	return done.Print(p.Printer, nil, l.DryRun)
}

// pruneOf lists every namespace of the snapshot or the server, unless the command is restricted to
// one.
func (p program) pruneOf(ctx context.Context, s *connect.State, ks []*kinds.Kind) (*adminv1.Prune, error) {
	prune := &adminv1.Prune{Namespaces: p.Namespace.Requested()}
	if len(ks) < len(kinds.All()) {
		for _, k := range ks {
			prune.Kinds = append(prune.Kinds, &adminv1.KindRef{Group: k.Group, Kind: k.Name})
		}
	}
	if len(prune.GetNamespaces()) > 0 {
		return prune, nil
	}
	live, err := p.ReadWhole(ctx, ks)
	if err != nil {
		return nil, err
	}
	for _, r := range append(live.Resources, s.Resources...) {
		if !slices.Contains(prune.GetNamespaces(), r.Namespace) {
			prune.Namespaces = append(prune.Namespaces, r.Namespace)
		}
	}
	return prune, nil
}
