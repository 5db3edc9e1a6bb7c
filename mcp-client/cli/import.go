package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/envoy"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// importOptions are the options of an import.
type importOptions struct {
	changeOptions

	strict          bool
	prune, yes      bool
	pruneNamespaces []string
	pruneKinds      []string
}

func (p *session) importCommand() *cobra.Command {
	var from sources
	var i importOptions
	cmd := &cobra.Command{
		Use:   "import PATH...",
		Short: "Create or replace any number of resources, all of them or none",
		Long: `Create or replace any number of resources, all of them as one revision, or none.

A PATH is a file, a folder with its folders, or - for standard input. What a cluster adds to resources is left out: their status,
managedFields, owners and the like. So are documents of kinds that have nothing to do with a mesh, which are counted; with
--strict they are mistakes. A resource that names no namespace goes to that of --namespace.

With --prune, what is not among the resources is deleted, in the namespaces of --prune-namespace alone.`,
		Example: `  mcp-client import mesh/ -m "everything from git"
  kubectl get virtualservices,destinationrules,gateways.networking.istio.io,serviceentries -A -o yaml | mcp-client import -
  mcp-client import shop/ --prune --prune-namespace shop --dry-run`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			from.paths, from.recursive = args, true
			start, err := i.start(cmd)
			if err != nil {
				return err
			}
			return p.importAll(cmd.Context(), from, i, start)
		},
	}
	i.declareFlags(cmd)
	i.declareConfirm(cmd)
	f := cmd.Flags()
	f.BoolVar(&i.strict, "strict", false, "refuse documents of kinds that have nothing to do with a mesh")
	f.BoolVar(&i.prune, "prune", false, "delete what is not imported, in the namespaces of --prune-namespace")
	f.StringSliceVar(&i.pruneNamespaces, "prune-namespace", nil, "a namespace to prune; may be given more than once")
	f.StringSliceVar(&i.pruneKinds, "prune-kind", nil, "prune resources of this kind alone; may be given more than once")
	f.BoolVar(&i.yes, "yes", false, "prune without having looked at it by --dry-run")
	return cmd
}

// start returns the first message of an import.
func (i *importOptions) start(cmd *cobra.Command) (*adminv1.ImportStart, error) {
	start := &adminv1.ImportStart{Message: i.message, DryRun: i.dryRun, Author: author(), ConfirmWithin: i.confirmation()}
	switch {
	case !i.prune && len(i.pruneNamespaces)+len(i.pruneKinds) > 0:
		return nil, usage(cmd, errors.New("--prune-namespace and --prune-kind say what --prune is to do, which is missing"))
	case !i.prune:
		return start, nil
	case len(i.pruneNamespaces) == 0:
		return nil, usage(cmd, errors.New("name what to prune with --prune-namespace"))
	case !i.yes && !i.dryRun:
		return nil, usage(cmd, errors.New("--prune deletes resources: look at what it would do with --dry-run, and then say --yes"))
	}
	start.Prune = &adminv1.Prune{Namespaces: i.pruneNamespaces}
	refs, err := kindRefs(i.pruneKinds)
	start.Prune.Kinds = refs
	return start, err
}

func kindRefs(words []string) ([]*adminv1.KindRef, error) {
	var refs []*adminv1.KindRef
	for _, word := range words {
		k, err := kinds.ByName(word)
		if err != nil {
			return nil, usage(nil, err)
		}
		refs = append(refs, &adminv1.KindRef{Group: k.Group, Kind: k.Name})
	}
	return refs, nil
}

// importAll reads the files and sends the documents as it reads them.
func (p *session) importAll(ctx context.Context, from sources, i importOptions, start *adminv1.ImportStart) error {
	files, err := from.files()
	if err != nil {
		return err
	}
	shown := newProgress(p.Err, files)
	defer shown.clear()
	reading := &fileReader{in: p.In, namespace: p.namespace.name, skipped: skipped{}, strict: i.strict, shown: shown}
	done, err := importStream(ctx, &p.server, start, shown, func(send func(*kinds.Document) error) error {
		for _, file := range files {
			if err := reading.file(file, send); err != nil {
				return err
			}
		}
		return reading.conclusion(files)
	})
	shown.clear()
	if err != nil {
		return err
	}
	return printImported(p.printer, done, reading.skipped, i.dryRun)
}

// fileReader reads files document by document and collects what is wrong with them.
type fileReader struct {
	in        io.Reader // standard input
	namespace string    // of documents that name none
	strict    bool      // documents of other kinds are mistakes
	skipped   skipped
	shown     *progress

	read    int // how many resources
	wrong   kinds.Errors
	dropped int // how many more are wrong

	unsupported kinds.Errors // valid fields that discovery does not act on
}

// maxMistakes bounds the printed violations: more than this is usually one mistake repeated.
const maxMistakes = 1000

func (r *fileReader) file(file string, send func(*kinds.Document) error) error {
	in := r.in
	if file == stdin {
		file = "standard input"
	} else {
		opened, err := os.Open(file)
		if err != nil {
			return err
		}
		defer opened.Close()
		in = opened
	}
	parser := kinds.Parser{DefaultNamespace: r.namespace, Examine: envoy.Examine}
	if !r.strict {
		parser.Foreign = r.skipped.add
	}
	return parser.Stream(file, r.shown.counting(in), func(d *kinds.Document, wrong kinds.Errors) error {
		for _, v := range wrong {
			if len(r.wrong) == maxMistakes {
				r.dropped++
				continue
			}
			r.wrong = append(r.wrong, v)
		}
		if d == nil || len(r.wrong) > 0 { // after a mistake, look for more but send nothing
			return nil
		}
		r.read++
		return send(d)
	})
}

// conclusion returns the error of reading the files, if there is one.
func (r *fileReader) conclusion(files []string) error {
	switch {
	case r.dropped > 0:
		r.wrong = append(r.wrong, kinds.Violation{Reason: fmt.Sprintf("%d more violations are not shown", r.dropped)})
		fallthrough
	case len(r.wrong) > 0:
		return &refusedError{r.wrong}
	case r.read == 0:
		return fmt.Errorf("there is no resource of a mesh in %s%s", list(files), r.skipped.inWords())
	}
	return nil
}

func list(files []string) string {
	if len(files) == 1 {
		return files[0]
	}
	return fmt.Sprintf("%d files", len(files))
}
