package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/files"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/convert"
	"github.com/pgmesh/pgmesh/mcp-client/convert/nginxconf"
)

// conversion is what the flags of convert say.
type conversion struct {
	files   files.Sources
	from    string
	strict  bool
	options convert.Options
}

// Convert returns the command convert.
func Convert(s *session.Session) *cobra.Command {
	p := program{s}
	var c conversion
	cmd := &cobra.Command{
		Use:   "convert ([-f] (FILE | FOLDER | -)... | KIND [NAME...] | KIND/NAME...)",
		Short: "Turn what Istio, Ingresses, NGINX, HAProxy, Kubernetes, Consul and Kuma have into resources of the mesh",
		Long: `Turn VirtualServices and Gateways of Istio, Ingresses of Kubernetes, and what NGINX and HAProxy do by host and path, into Gateways and
routes of the Gateway API, and print them as apply takes them. The source stays as it is, and nothing is sent to a server.

Services of Kubernetes with their EndpointSlices or Pods become ServiceEntries and WorkloadEntries, and the ConfigMap of Istio a
MeshConfig. What is of the mesh among them is printed as it is. mcp-client import --from kubernetes sends the same to a server.

Answers of Consul's catalog, definitions of its services and its config entries (JSON or HCL) become ServiceEntries, WorkloadEntries,
VirtualServices, DestinationRules and AuthorizationPolicies, and so does what kumactl or kubectl prints of a mesh of Kuma. What is refused
there is refused here, or a warning says so.

Without -f, VirtualServices and Gateways are read from the server. With -f no server is needed. A file's name and content show what it is,
unless --from says it, which it has to where both could be of others: Services beside Ingresses or VirtualServices are taken for
what those lead to, and an agent's configuration is Consul's with --from consul alone.

The result does with each request what the source did. Each thing that routes cannot say is a warning on standard error: where it stands,
and what to do instead. A rule whose match they cannot say is left out. A rule that might refuse requests, or answers them by itself, becomes
one that answers 500. With --strict each warning is an error.`,
		Example: `  mcp-client convert -f edge.yaml
  mcp-client convert virtualservice/web -n shop > web-route.yaml
  mcp-client convert all -A > routes.yaml
  mcp-client convert -f nginx.conf -n shop --strict | mcp-client apply -f - --dry-run
  kubectl get ingress,service -A -o yaml | mcp-client convert -f - --gateway edge
  kubectl get services,endpointslices,pods,nodes -A -o yaml | mcp-client convert -f -
  mcp-client convert -f consul.json -n shop
  mcp-client convert -f agent.hcl --from consul -n shop
  mcp-client convert -f kuma.yaml -n shop`,
		ValidArgsFunction: p.CompleteResources,
		RunE: func(cmd *cobra.Command, args []string) error {
			if areFiles(args) {
				c.files.Paths, args = append(c.files.Paths, args...), nil
			}
			if (len(args) == 0) == (len(c.files.Paths) == 0) {
				return failure.Usage(cmd, errors.New("name either files with -f, or what to read from the server, such as virtualservices"))
			}
			if err := validSource(cmd, c.from); err != nil {
				return err
			}
			c.options.From = convert.Source(c.from)
			return p.convert(cmd, args, c)
		},
	}
	c.files.DeclareFlags(cmd, "convert")
	f := cmd.Flags()
	declareSource(cmd, &c.from, "as their names and contents show")
	f.StringVar(&c.options.Gateway, "gateway", "", "the name of the Gateway where the source has none (default: the class of an Ingress, nginx, or haproxy)")
	f.StringVar(&c.options.Class, "gateway-class", defaultClass, "the class of Gateways")
	f.BoolVar(&c.options.WholeSegments, "whole-segments", false, "match prefixes by whole segments: /a does not match /ab any more, and routes need fewer regular expressions")
	f.BoolVar(&c.strict, "strict", false, "make each warning an error, and print nothing else")
	return cmd
}

// areFiles reports whether arguments name files, and nothing of a server.
func areFiles(args []string) bool {
	if _, err := arguments.Parse(args); err == nil || len(args) == 0 {
		return false
	}
	return !slices.ContainsFunc(args, func(arg string) bool {
		_, err := os.Stat(arg)
		return err != nil && arg != files.Stdin
	})
}

// defaultClass is the class of Gateways.
const defaultClass = "pgmesh"

// declareSource declares the flag that says what files are.
func declareSource(cmd *cobra.Command, from *string, otherwise string) {
	cmd.Flags().StringVar(from, "from", "", "what the files are: "+convert.SourceNames()+" (default: "+otherwise+")")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions(strings.Split(strings.ReplaceAll(convert.SourceNames(), " or ", ", "), ", "), cobra.ShellCompDirectiveNoFileComp))
}

func validSource(cmd *cobra.Command, from string) error {
	if from == "" || slices.Contains(convert.Sources(), convert.Source(from)) {
		return nil
	}
	return failure.Usage(cmd, fmt.Errorf("--from %s: there is %s", from, convert.SourceNames()))
}

func (p program) convert(cmd *cobra.Command, args []string, c conversion) error {
	var known []*kinds.Document
	if len(args) > 0 {
		query, err := arguments.Parse(args)
		if err != nil {
			return failure.Usage(cmd, err)
		}
		if known, err = p.converted(cmd.Context(), query); err != nil {
			return err
		}
	}
	result, err := p.convertFiles(c.files, known, c.options)
	if err != nil {
		return err
	}
	return p.printConverted(result, c.strict)
}

// convertFiles converts files, with documents that are known beside.
func (p program) convertFiles(from files.Sources, known []*kinds.Document, o convert.Options) (*convert.Result, error) {
	included := map[string]bool{}
	o.Namespace, o.Open = p.Namespace.Name, func(from, pattern string) ([]nginxconf.Opened, error) { return openIncluded(from, pattern, included) }
	from.Endings = o.From.Endings()
	found, err := from.Texts(p.In)
	if err != nil {
		return nil, err
	}
	var texts []convert.File
	for _, f := range found {
		texts = append(texts, convert.File(f))
	}
	result, err := convert.Files(texts, known, o)
	if wrong, is := errors.AsType[kinds.Errors](err); is {
		return nil, &failure.Invalid{Violations: wrong}
	}
	if err != nil {
		return nil, err
	}
	if others := from.Others(included); others != "" {
		tellOthers(result, others, o.From)
	}
	return result, nil
}

// tellOthers tells which files of folders were not read. Who says what the files are means all of them.
func tellOthers(r *convert.Result, others string, from convert.Source) {
	if from == "" {
		r.Notes = append(r.Notes, kinds.Violation{Reason: others})
		return
	}
	r.Lost = append(r.Lost, kinds.Violation{Reason: others, Hint: "name those that are of " + string(from) + ", and they are read whatever they end in"})
}

// converted are the resources to be converted, with those that say what hosts are.
func (p program) converted(ctx context.Context, query []arguments.Wanted) (out []*kinds.Document, err error) {
	beside := []string{"ServiceEntry", "DestinationRule"}
	read, err := p.Read(ctx, arguments.Distinct(append(arguments.KindsOf(query), ofIstio(beside)...)))
	if err != nil {
		return nil, err
	}
	found, missing := p.Namespace.Find(query, read.Resources)
	if len(missing) > 0 {
		return nil, failure.Several(missing)
	}
	for _, r := range read.Resources {
		if slices.Contains(found, r) || r.Kind.Group == istioGroup && slices.Contains(beside, r.Kind.Name) {
			out = append(out, &kinds.Document{Resource: r})
		}
	}
	return out, nil
}

const istioGroup = "networking.istio.io"

func ofIstio(names []string) (out []*kinds.Kind) {
	for _, name := range names {
		kind, _ := kinds.Lookup(istioGroup, name)
		out = append(out, kind)
	}
	return out
}

// printConverted prints what a conversion came to, after what it has to tell.
func (p program) printConverted(r *convert.Result, strict bool) error {
	if err := p.tellConverted(r, strict); err != nil {
		return err
	}
	resources := make([]*kinds.Resource, len(r.Documents))
	for i, d := range r.Documents {
		resources[i] = d.Resource
	}
	if p.Output.IsTable() {
		return p.PrintExactly(kinds.MarshalYAML(resources...))
	}
	return p.PrintResources(resources, false, nil)
}

// tellConverted tells what a conversion has to tell, and fails if there is nothing to go on with.
func (p program) tellConverted(r *convert.Result, strict bool) error {
	for _, v := range r.Notes {
		fmt.Fprintln(p.Err, "note:", v.Error())
	}
	for _, v := range r.Lost {
		fmt.Fprintln(p.Err, "warning:", v.Error())
	}
	switch {
	case strict && len(r.Lost) > 0:
		return &failure.Lossy{Count: len(r.Lost)}
	case len(r.Documents) == 0:
		return errors.New("there is nothing that could be converted")
	}
	return nil
}

// openIncluded opens what a file of NGINX includes, which is named relative to it, and notes what that is.
func openIncluded(from, pattern string, included map[string]bool) (opened []nginxconf.Opened, err error) {
	if !filepath.IsAbs(pattern) {
		pattern = filepath.Join(filepath.Dir(from), pattern)
	}
	names, err := filepath.Glob(pattern)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(names, cmp.Compare[string])
	for _, name := range names {
		included[name] = true
		if info, err := os.Stat(name); err != nil || info.IsDir() || strings.HasSuffix(name, "mime.types") {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		opened = append(opened, nginxconf.Opened{Name: name, Data: data})
	}
	return opened, nil
}
