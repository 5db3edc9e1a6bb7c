package cli

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
	"github.com/pgmesh/pgmesh/mcp-client/snapshot"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

func (p *session) snapshotCommand() *cobra.Command {
	return family(&cobra.Command{
		Use:   "snapshot",
		Short: "Keep the whole state of a server in a file, look at it, and put it back",
		Long: `Keep the whole state of a server in a file, look at it, and put it back.

A snapshot is what a server serves over MCP, of pgmesh or of others, at one moment. The file is text, a JSON value a line, with a
checksum at its end; a name that ends in .gz makes it compressed. To have the resources as files for people, use export.`,
	}, p.snapshotSaveCommand(), p.snapshotShowCommand(), p.snapshotLoadCommand())
}

func (p *session) snapshotSaveCommand() *cobra.Command {
	var only scope
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
	only.declareFlags(cmd)
	return cmd
}

func (p *session) saveSnapshot(ctx context.Context, path string, only scope) error {
	ks, err := only.kinds()
	if err != nil {
		return err
	}
	read, err := p.read(ctx, ks)
	if err != nil {
		return err
	}
	read.narrow(ks, p.namespace.requested())
	h := snapshot.Header{Server: p.server.address, Revision: read.revision, Taken: time.Now().UTC()}
	var entries []snapshot.Entry
	for _, r := range read.resources {
		entries = append(entries, snapshot.Entry{Resource: r, Version: read.versions[r.Key()]})
	}
	if path == stdin { // "-" stands for standard output here
		return snapshot.Write(terminal.Exactly(p.Out), h, entries)
	}
	if err := snapshot.Save(path, h, entries); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Out, "%s in %s\n", counted(len(entries), "resource", "resources"), path)
	return err
}

func stateOf(h snapshot.Header, entries []snapshot.Entry) *state {
	s := &state{revision: h.Revision, versions: map[kinds.Key]string{}}
	for _, e := range entries {
		s.resources = append(s.resources, e.Resource)
		s.versions[e.Resource.Key()] = e.Version
	}
	s.sort()
	return s
}

// openSnapshot reads a snapshot from a file or from standard input.
func (p *session) openSnapshot(path string) (snapshot.Header, *state, error) {
	if path == stdin {
		h, entries, err := snapshot.Read(p.In)
		return h, stateOf(h, entries), err
	}
	h, entries, err := snapshot.Open(path)
	return h, stateOf(h, entries), err
}

func (p *session) snapshotShowCommand() *cobra.Command {
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
			return p.completeKinds(cmd, args[1:], typed)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return p.showSnapshot(args[0])
			}
			query, err := parseWanted(args[1:])
			if err != nil {
				return usage(cmd, err)
			}
			selected, err := selector.Parse(labels)
			if err != nil {
				return usage(cmd, err)
			}
			_, read, err := p.openSnapshot(args[0])
			if err != nil {
				return err
			}
			return p.printWanted(query, selected, read.resources)
		},
	}
	cmd.Flags().StringVarP(&labels, "selector", "l", "", selectorHelp)
	return cmd
}

// snapshotSummary is the printed form of a snapshot's contents.
type snapshotSummary struct {
	snapshot.Header

	Resources int         `json:"resources"`
	Kinds     []kindCount `json:"kinds"`
}

type kindCount struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Count int    `json:"count"`
}

func (p *session) showSnapshot(path string) error {
	h, read, err := p.openSnapshot(path)
	if err != nil {
		return err
	}
	summary := snapshotSummary{h, len(read.resources), countKinds(read.resources)}
	if p.output.isTree() {
		return p.printTree(summary)
	}
	if p.output.format == nameFormat {
		return p.printResources(read.resources, false)
	}
	w := newRows(p.Out)
	w.row("server", h.Server)
	w.row("revision", revisionText(h.Revision))
	w.row("taken", localTime(h.Taken))
	w.row("resources", fmt.Sprint(summary.Resources))
	for _, k := range summary.Kinds {
		kind, _ := kinds.Lookup(k.Group, k.Kind)
		w.row("  "+word(kind), fmt.Sprint(k.Count))
	}
	return w.Flush()
}

// revisionText formats a revision. Servers of others have none.
func revisionText(revision int64) string {
	if revision == 0 {
		return "-"
	}
	return fmt.Sprint(revision)
}

// countKinds counts sorted resources by kind.
func countKinds(resources []*kinds.Resource) []kindCount {
	counts := []kindCount{}
	for _, r := range resources {
		if last := len(counts) - 1; last >= 0 && counts[last].Group == r.Kind.Group && counts[last].Kind == r.Kind.Name {
			counts[last].Count++
			continue
		}
		counts = append(counts, kindCount{r.Kind.Group, r.Kind.Name, 1})
	}
	return counts
}

// loadOptions are the options of snapshot load.
type loadOptions struct {
	changeOptions

	prune, yes bool
}

func (p *session) snapshotLoadCommand() *cobra.Command {
	var l loadOptions
	var only scope
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
			if l.prune && !l.yes && !l.dryRun {
				return usage(cmd, errors.New("--prune deletes resources: look at what it would do with --dry-run, and then say --yes"))
			}
			return p.loadSnapshot(cmd.Context(), args[0], l, only)
		},
	}
	l.declareFlags(cmd)
	l.declareConfirm(cmd)
	only.declareFlags(cmd)
	cmd.Flags().BoolVar(&l.prune, "prune", false, "delete what is not in the snapshot")
	cmd.Flags().BoolVar(&l.yes, "yes", false, "prune without having looked at it by --dry-run")
	return cmd
}

func (p *session) loadSnapshot(ctx context.Context, path string, l loadOptions, only scope) error {
	ks, err := only.kinds()
	if err != nil {
		return err
	}
	_, read, err := p.openSnapshot(path)
	if err != nil {
		return err
	}
	read.narrow(ks, p.namespace.requested())
	start := &adminv1.ImportStart{Message: l.message, DryRun: l.dryRun, Author: author(), ConfirmWithin: l.confirmation()}
	if l.prune {
		if start.Prune, err = p.pruneOf(ctx, read, ks); err != nil {
			return err
		}
	}
	shown := newProgress(p.Err, []string{path})
	defer shown.clear()
	done, err := importStream(ctx, &p.server, start, shown, func(send func(*kinds.Document) error) error {
		for _, r := range read.resources {
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
	shown.clear()
	if err != nil {
		return err
	}
	return printImported(p.printer, done, nil, l.dryRun)
}

// pruneOf lists every namespace of the snapshot or the server, unless the command is restricted to one.
func (p *session) pruneOf(ctx context.Context, s *state, ks []*kinds.Kind) (*adminv1.Prune, error) {
	prune := &adminv1.Prune{Namespaces: p.namespace.requested()}
	if len(ks) < len(kinds.All()) {
		for _, k := range ks {
			prune.Kinds = append(prune.Kinds, &adminv1.KindRef{Group: k.Group, Kind: k.Name})
		}
	}
	if len(prune.GetNamespaces()) > 0 {
		return prune, nil
	}
	live, err := p.read(ctx, ks)
	if err != nil {
		return nil, err
	}
	for _, r := range append(live.resources, s.resources...) {
		if !slices.Contains(prune.GetNamespaces(), r.Namespace) {
			prune.Namespaces = append(prune.Namespaces, r.Namespace)
		}
	}
	return prune, nil
}
