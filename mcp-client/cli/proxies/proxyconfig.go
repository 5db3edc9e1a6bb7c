package proxies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// proxyTable is the table of one type of a proxy's configuration.
type proxyTable struct {
	typ, short string
	header     []string
	rows       func(context.Context, program, url.Values) ([][]string, error)
}

var proxyTables = []proxyTable{
	{"clusters", "List the clusters of a proxy", []string{"HOST", "PORT", "SUBSET", "DIRECTION", "TYPE", "ENDPOINTS"}, clusterRows},
	{"endpoints", "List the endpoints of a proxy's clusters", []string{"ENDPOINT", "HEALTH", "LOCALITY", "PRIORITY", "WEIGHT", "CLUSTER"}, endpointRows},
	{"listeners", "List the listeners of a proxy", []string{"ADDRESS", "PORT", "NAME", "CHAINS"}, listenerRows},
	{"routes", "List the routes of a proxy", []string{"NAME", "VIRTUAL HOST", "DOMAINS", "MATCH", "TO"}, routeRows},
	{"secrets", "List the certificates of a proxy, without keys", []string{"NAME", "TYPE", "NAMES", "NOT AFTER"}, secretRows},
}

// shortOf are istioctl's short names.
var shortOf = map[string][]string{"clusters": {"c"}, "endpoints": {"ep"}, "listeners": {"l"}, "routes": {"r"}, "secrets": {"s"}}

// Config returns the command proxy-config.
func Config(s *session.Session) *cobra.Command {
	p := program{s}
	cmd := &cobra.Command{
		Use:     "proxy-config",
		Aliases: []string{"pc", "proxy"},
		Short:   "Show what discovery has for a proxy",
		Long: `Show what discovery has for a connected proxy: what Envoy has, once it has accepted it. proxy-status tells whether it has.

As JSON or YAML it is in the form of Envoy's own /config_dump. Private keys are in none of it.`,
	}
	members := []*cobra.Command{p.proxyDumpCommand()}
	for _, t := range proxyTables {
		members = append(members, p.proxyTableCommand(t))
	}
	cmd.SetFlagErrorFunc(filterMeant)
	return arguments.Family(cmd, members...)
}

// byName has istioctl's filters as values of --name, which stands for them here.
var byName = map[string]string{
	"fqdn": "reviews.example.com", "port": "9080", "direction": "'^outbound'", "subset": `'\|v1\|'`, "cluster": `'^outbound\|9080\|v1\|reviews'`,
}

// filterMeant says how to filter by --name what istioctl has a flag for.
func filterMeant(cmd *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok && !cmd.HasSubCommands() {
		if value := byName[missing.GetSpecifiedName()]; value != "" {
			return fmt.Errorf("%w (here a regular expression chooses by the name: --name %s)", err, value)
		}
	}
	return arguments.FlagError(cmd, err)
}

func (p program) proxyDumpCommand() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:     "all PROXY",
		Aliases: []string{"a"},
		Short:   "Print all that discovery has for a proxy",
		Long: `Print all that discovery has for a proxy, as JSON in the form of Envoy's own /config_dump, or as YAML. The tools that read the one read
the other.`,
		Example: `  mcp-client proxy-config all vm-1 > dump.json
  mcp-client proxy-config all vm-1 --name reviews -o yaml`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeProxies,
		RunE: func(cmd *cobra.Command, args []string) error {
			if p.Output.IsTable() {
				p.Output = output.ChoiceOf(output.JSON)
			}
			return p.printDump(cmd.Context(), filters(args[0], name))
		},
	}
	nameFlag(cmd, &name)
	return cmd
}

func nameFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "name", "", "only what has a name that this regular expression matches")
}

// proxyID reads the name of a proxy, which may follow its namespace and a slash, as describe writes it.
func proxyID(text string) string { return text[strings.LastIndex(text, "/")+1:] }

func filters(proxy, name string) url.Values {
	query := url.Values{"proxy": {proxyID(proxy)}}
	if name != "" {
		query.Set("name", name)
	}
	return query
}

func (p program) printDump(ctx context.Context, query url.Values) error {
	body, err := p.page(ctx, "/debug/config_dump", query)
	if err != nil {
		return err
	}
	return p.PrintTree(json.RawMessage(body))
}

func (p program) proxyTableCommand(t proxyTable) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:               t.typ + " PROXY",
		Aliases:           slices.Concat([]string{strings.TrimSuffix(t.typ, "s")}, shortOf[t.typ]), // istioctl's names for it
		Short:             t.short,
		Example:           fmt.Sprintf("  mcp-client proxy-config %s vm-1\n  mcp-client proxy-config %s vm-1 --name reviews -o yaml", t.typ, t.typ),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeProxies,
		RunE: func(cmd *cobra.Command, args []string) error {
			query := filters(args[0], name)
			if p.Output.IsTree() {
				query.Set("type", t.typ)
				return p.printDump(cmd.Context(), query)
			}
			rows, err := t.rows(cmd.Context(), p, query)
			if err != nil {
				return err
			}
			return p.printProxyTable(t, rows)
		},
	}
	nameFlag(cmd, &name)
	return cmd
}

func (p program) printProxyTable(t proxyTable, rows [][]string) error {
	if len(rows) == 0 {
		fmt.Fprintf(p.Err, "the proxy has no %s of that name, or none at all\n", t.typ)
		return nil
	}
	w := output.NewRows(p.Out)
	w.Row(t.header...)
	for _, row := range rows {
		w.Row(row...)
	}
	return w.Flush()
}

func clusterRows(ctx context.Context, p program, query url.Values) (rows [][]string, err error) {
	var all []proxyCluster
	if err := p.readPage(ctx, &all, "/debug/clusters", query); err != nil {
		return nil, err
	}
	for _, c := range all {
		rows = append(rows, append(partsOf(c.Name), c.Type, strconv.Itoa(len(c.Endpoints))))
	}
	return rows, nil
}

// partsOf splits the name of a cluster into host, port, subset and direction:
// outbound|80|v1|reviews.example.com. Some clusters have other names.
func partsOf(name string) []string {
	if parts := strings.Split(name, "|"); len(parts) == 4 {
		return []string{words.OrDash(parts[3]), words.OrDash(parts[1]), words.OrDash(parts[2]), parts[0]}
	}
	return []string{name, "-", "-", "-"}
}

func endpointRows(ctx context.Context, p program, query url.Values) (rows [][]string, err error) {
	var all []proxyCluster
	if err := p.readPage(ctx, &all, "/debug/clusters", query); err != nil {
		return nil, err
	}
	for _, c := range all {
		for _, e := range c.Endpoints {
			rows = append(rows, []string{e.Address, strings.ToUpper(e.Health), words.OrDash(e.Locality), strconv.Itoa(e.Priority), strconv.Itoa(e.Weight), c.Name})
		}
	}
	return rows, nil
}
