package resources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/connect"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	"github.com/pgmesh/pgmesh/mcp-client/services"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// Services returns the command services.
func Services(s *session.Session) *cobra.Command {
	p := program{s}
	var origin string
	cmd := &cobra.Command{
		Use:   "services [HOST...]",
		Short: "List what can be called, who serves it, and where that comes from",
		Long: `List the hosts that can be called in the mesh, of all namespaces unless -n names one, with who serves them: how many endpoints there are, and
how many of them are healthy. ORIGIN is the registry that has a service, and "-" for one of the mesh's own.

Of a HOST it lists the endpoints, too. In a namespace a host is that of its first origin: the mesh's own, then registries in the order of
--registry. What comes later is marked "not used": nobody is sent there.

It is worked out from what any MCP server serves. Of a registry that cannot be asked, a pgmesh server tells since when.`,
		Example: `  mcp-client services
  mcp-client services reviews.example.com
  mcp-client services --origin database -o wide`,
		ValidArgsFunction: p.completeHosts,
		RunE:              func(cmd *cobra.Command, hosts []string) error { return p.services(cmd.Context(), hosts, origin) },
	}
	cmd.Flags().StringVar(&origin, "origin", "", originHelp)
	return cmd
}

func (p program) services(ctx context.Context, hosts []string, origin string) error {
	read, err := p.Read(ctx, services.Kinds())
	if err != nil {
		return err
	}
	known, err := services.Of(read.Resources)
	if err != nil {
		return err
	}
	in := p.Namespace.Requested()
	known = slices.DeleteFunc(known, func(s services.Service) bool {
		return len(in) > 0 && !slices.Contains(in, s.Namespace) || origin != "" && origin != cmp.Or(s.Origin, kinds.OwnOrigin)
	})
	shown, missing := ofHosts(known, hosts)
	if err := p.printServices(shown, len(hosts) > 0); err != nil {
		return err
	}
	if len(shown) == 0 {
		p.TellIfUnknown(ctx, nil)
	}
	p.warnOfStale(ctx, shown)
	if len(missing) > 0 {
		return failure.Several(missing)
	}
	return nil
}

// ofHosts picks the services of hosts, all if there are none, and returns an error for each host that
// nobody serves.
func ofHosts(known []services.Service, hosts []string) (found []services.Service, missing []error) {
	if len(hosts) == 0 {
		return known, nil
	}
	for _, host := range hosts {
		before := len(found)
		var others []string
		for _, s := range known {
			others = append(others, s.Host)
			if s.Host == strings.ToLower(host) {
				found = append(found, s)
			}
		}
		switch near := arguments.Nearest(strings.ToLower(host), others); {
		case len(found) > before:
		case near != "":
			missing = append(missing, fmt.Errorf("no service has the host %q (did you mean %q?)", host, near))
		default:
			missing = append(missing, fmt.Errorf("no service has the host %q", host))
		}
	}
	return found, missing
}

func (p program) printServices(shown []services.Service, endpoints bool) error {
	if len(shown) == 0 && p.Output.IsTable() {
		if !endpoints {
			fmt.Fprintln(p.Err, "no services found")
		}
		return nil
	}
	list := output.Listing{
		Tree: shown, Columns: []string{"HOST", "NAMESPACE", "PORTS", "ENDPOINTS", "HEALTHY", "ORIGIN"}, Wide: []string{"NAME", "ENTRY", "LOCATION", "RESOLUTION"},
	}
	for _, s := range shown {
		list.Add(s.Host, s.Host, words.OrDash(s.Namespace), words.OrDash(s.PortList()), fmt.Sprint(len(s.Endpoints)), fmt.Sprint(s.Healthy()), origin(s),
			s.Name, words.OrDash(s.Entry), s.Location, s.Resolution)
	}
	if err := p.PrintListing(list); err != nil || !endpoints || !p.Output.IsTable() {
		return err
	}
	return p.printEndpoints(shown)
}

func origin(s services.Service) string {
	text := words.OrDash(s.Origin)
	if !s.InEffect {
		text += " (not used)"
	}
	return text
}

func (p program) printEndpoints(of []services.Service) error {
	columns := []string{"HOST", "ADDRESS", "HEALTH", "LOCALITY", "LABELS"}
	wide := p.Output.Format == output.Wide
	if wide {
		columns = append(columns, "PORTS", "WEIGHT", "NETWORK", "ACCOUNT", "WORKLOAD")
	}
	w := output.NewRows(p.Out)
	w.Row()
	w.Row(columns...)
	for _, s := range of {
		for _, e := range s.Endpoints {
			cells := []string{s.Host, words.OrDash(e.Address), e.Health, words.OrDash(e.Locality), words.OrDash(e.LabelList())}
			if wide {
				cells = append(cells, words.OrDash(e.PortList()), fmt.Sprint(e.Weight), words.OrDash(e.Network), words.OrDash(e.Account), words.OrDash(e.Workload))
			}
			w.Row(cells...)
		}
	}
	return w.Flush()
}

// warnOfStale says which registries cannot be asked, of those that have something that was shown.
// Servers other than pgmesh, and callers that may not know, are not told.
func (p program) warnOfStale(ctx context.Context, shown []services.Service) {
	if !slices.ContainsFunc(shown, func(s services.Service) bool { return s.Origin != "" }) {
		return
	}
	resp, err := session.Ask(ctx, p.Session, adminv1.AdminServiceClient.Problems, &adminv1.ProblemsRequest{Namespaces: []string{""}})
	if err != nil {
		return
	}
	for _, problem := range resp.GetProblems() {
		of := func(s services.Service) bool { return s.Origin == problem.GetResource().GetName() }
		if problem.GetCode() == "stale-registry" && slices.ContainsFunc(shown, of) {
			fmt.Fprintln(p.Err, "warning:", words.FirstLine(problem.GetMessage()))
		}
	}
}

// completeHosts completes hosts that can be called.
func (p program) completeHosts(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if err := p.BeginCompletion(cmd); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	read, err := p.Server.Read(cmd.Context(), services.Kinds(), &connect.Events{})
	var known []services.Service
	if err == nil {
		known, err = services.Of(read.Resources)
	}
	if err = errors.Join(err, cmd.Context().Err()); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var hosts []cobra.Completion
	for _, s := range known {
		hosts = append(hosts, s.Host)
	}
	slices.Sort(hosts)
	return slices.Compact(hosts), cobra.ShellCompDirectiveNoFileComp
}
