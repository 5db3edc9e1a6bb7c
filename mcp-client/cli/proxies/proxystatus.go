package proxies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// Status returns the command proxy-status.
func Status(s *session.Session) *cobra.Command {
	p := program{s}
	var state string
	cmd := &cobra.Command{
		Use:     "proxy-status [PROXY]",
		Aliases: []string{"ps", "proxies"},
		Short:   "List the proxies of the mesh, and whether they have taken what they were sent",
		Long: `List the proxies of the mesh, of all discoveries that report to mcp-server: which revision each runs, which it was sent last, how many resources it
refuses, and for how long it is in its state. It takes the scope read of the namespaces.

  synced   it runs what it was sent
  sending  something is on its way
  refused  it refuses some of what it was sent, and runs the rest
  silent   it has not answered for long
  away     it is connected to no discovery that reports, or nobody knows; after ten minutes it is no longer listed

A discovery tells more of the proxies that are connected to it. It is asked about one PROXY, and also without one where --discovery names it, or
PGMESH_DISCOVERY or the context does and neither -n, -A nor --state is given. For each type of Envoy's configuration it tells whether the proxy has what
it is to have.

  SYNCED   it has accepted the newest of what concerns it
  STALE    it has not answered what it was sent, or is to be sent more
  NACKED   it refuses something, goes on with what it had of that, and has everything else
  -        it does not ask for the type

Of one PROXY it tells all: when what was sent, accepted and refused, and why. The name of a proxy is the third part of its node's id, or the
beginning of that up to a dot.

The exit code is 1 if a proxy refuses something.`,
		Example: `  mcp-client proxy-status
  mcp-client proxy-status -n shop --state silent -o wide
  mcp-client proxy-status -A -o jsonpath='{range [?(@.state!="synced")]}{.proxy}{"\n"}{end}'
  mcp-client proxy-status vm-1`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeProxies,
	}
	cmd.Flags().StringVar(&state, "state", "", "only those in one state: "+strings.Join(proxyStates, ", "))
	if err := cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(proxyStates, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag exists
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		query := url.Values{}
		switch {
		case len(args) == 0 && p.ofMesh(cmd):
			return p.meshStatus(cmd.Context(), state)
		case cmd.Flags().Changed("state"):
			return failure.Usage(cmd, errors.New("--state is about the whole mesh: leave it out, or PROXY and --discovery"))
		case len(args) > 0:
			query.Set("proxy", proxyID(args[0]))
		}
		return p.proxyStatus(cmd.Context(), query)
	}
	return cmd
}

// ofMesh reports whether the command is about the whole mesh. Where a discovery is named, it is
// about that one, unless what is on the command line is about the mesh.
func (p program) ofMesh(cmd *cobra.Command) bool {
	if p.Given("discovery") {
		return false
	}
	named := cmd.Flags().Changed("discovery") || p.Discovery != session.DefaultDiscovery // by a variable, or the context
	return !named || p.Given("namespace") || p.Given("all-namespaces") || p.Given("state")
}

// errRefusing ends a command that has listed refusals.
var errRefusing = errors.New("there are proxies that refuse what they were sent")

const nackedStatus = "nacked"

func (p program) proxyStatus(ctx context.Context, query url.Values) error {
	body, err := p.page(ctx, "/debug/proxies", query)
	if err != nil {
		return err
	}
	var all []connectedProxy
	if err := json.Unmarshal(body, &all); err != nil {
		return fmt.Errorf("read the proxies of discovery at %s: %w", p.Discovery, err)
	}
	switch {
	case p.Output.IsTree():
		err = p.PrintTree(json.RawMessage(body))
	case p.Output.Format == output.Name:
		for _, one := range all {
			fmt.Fprintln(p.Out, one.Proxy)
		}
	case query.Has("proxy"):
		for _, one := range all {
			err = errors.Join(err, p.printProxy(one))
		}
	default:
		err = p.printProxies(all)
	}
	if err != nil {
		return err
	}
	for _, one := range all {
		for _, t := range one.Types {
			if t.Status == nackedStatus {
				return errRefusing
			}
		}
	}
	return nil
}

// proxyColumns are the types with a column in the table of proxies.
var proxyColumns = []string{"clusters", "listeners", "endpoints", "routes", "hosts", "scopes", "extensions", "secrets"}

func (p program) printProxies(all []connectedProxy) error {
	if len(all) == 0 {
		fmt.Fprintf(p.Err, "no proxy is connected to discovery at %s\n", p.Discovery)
		return nil
	}
	w := output.NewRows(p.Out)
	header := []string{"NAME", "ENVOY", "FORM", "CONNECTED"}
	for _, column := range proxyColumns {
		header = append(header, strings.ToUpper(column))
	}
	if p.Output.Format == output.Wide {
		header = append(header, "REVISION", "NEWEST", "CLASS", "ADDRESS")
	}
	w.Row(header...)
	for _, one := range all {
		row := []string{one.Proxy, words.OrDash(one.Envoy), one.Form, words.Age(one.Connected)}
		for _, column := range proxyColumns {
			row = append(row, p.statusOf(one, column))
		}
		if p.Output.Format == output.Wide {
			row = append(row, words.OrDash(one.Revision), words.OrDash(one.Newest), words.OrDash(one.Class), one.Address)
		}
		w.Row(row...)
	}
	return w.Flush()
}

// statusOf returns the status of a type in a proxy, "-" if the proxy does not subscribe to it.
func (p program) statusOf(of connectedProxy, typ string) string {
	for _, t := range of.Types {
		if t.Type == typ {
			return p.paintStatus(t.Status)
		}
	}
	return "-"
}

func (p program) paintStatus(status string) string {
	styles := map[string]terminal.Style{"synced": terminal.Green, "stale": terminal.Yellow, nackedStatus: terminal.Red}
	return p.Paint(styles[status], strings.ToUpper(status))
}

func (p program) printProxy(one connectedProxy) error {
	w := output.NewRows(p.Out)
	w.Row("proxy", fmt.Sprintf("%s, a %s of the namespace %s, Envoy %s", one.Proxy, one.Role, one.Namespace, words.OrDash(one.Envoy)))
	w.Row("connected", fmt.Sprintf("for %s, from %s, in the form %s", words.Age(one.Connected), one.Address, one.Form))
	w.Row("class", words.OrDash(one.Class))
	w.Row("revision", words.OrDash(one.Revision))
	if one.Newest != one.Revision {
		w.Row("next", one.Newest)
	}
	w.Row()
	w.Row("TYPE", "STATUS", "RESOURCES", "SENT", "ACKED", "NACKED")
	for _, t := range one.Types {
		w.Row(t.Type, p.paintStatus(t.Status), fmt.Sprint(t.Resources), t.Sent.text(), t.Acked.text(), t.Nacked.text())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, t := range one.Types {
		for _, r := range t.Refused {
			fmt.Fprintf(p.Out, "\nrefuses of the %s, for %s: %s\n  %s\n", t.Type, words.Age(r.Since), r.Name, words.FirstLine(r.Reason))
		}
	}
	return nil
}

// text says which revision a message had, and how long ago.
func (m *proxyMessage) text() string {
	if m == nil {
		return "-"
	}
	text := fmt.Sprintf("%s, %s ago", m.Revision, words.Span(time.Since(m.At)))
	if m.Reason != "" {
		text += ": " + words.FirstLine(m.Reason)
	}
	return text
}
