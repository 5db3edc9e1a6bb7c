package cli

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
)

func (p *session) proxyStatusCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "proxy-status [PROXY]",
		Aliases: []string{"ps", "proxies"},
		Short:   "List the connected proxies, and whether they have taken what they were sent",
		Long: `List the proxies that are connected to a discovery, and for each type of Envoy's configuration whether the proxy has what it is to have.

  SYNCED   it has accepted the newest of what concerns it
  STALE    it has not answered what it was sent, or is to be sent more
  NACKED   it refuses something, goes on with what it had of that, and has everything else
  -        it does not ask for the type

Of one PROXY it tells all: when what was sent, accepted and refused, and why. The name of a proxy is the third part of its node's id, or the
beginning of that up to a dot. Where there are several discoveries, each knows its own proxies: name them in turn with --discovery.

The exit code is 1 if a proxy refuses something.`,
		Example: `  mcp-client proxy-status
  mcp-client proxy-status vm-1
  mcp-client proxy-status -o jsonpath='{range [?(@.current==false)]}{.proxy}{"\n"}{end}'`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: p.completeProxies,
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if len(args) > 0 {
				query.Set("proxy", args[0])
			}
			return p.proxyStatus(cmd.Context(), query)
		},
	}
}

// errRefusing ends a command that has listed refusals.
var errRefusing = errors.New("there are proxies that refuse what they were sent")

const nackedStatus = "nacked"

func (p *session) proxyStatus(ctx context.Context, query url.Values) error {
	body, err := p.page(ctx, "/debug/proxies", query)
	if err != nil {
		return err
	}
	var all []connectedProxy
	if err := json.Unmarshal(body, &all); err != nil {
		return fmt.Errorf("read the proxies of discovery at %s: %w", p.discovery, err)
	}
	switch {
	case p.output.isTree():
		err = p.printTree(json.RawMessage(body))
	case p.output.format == nameFormat:
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

func (p *session) printProxies(all []connectedProxy) error {
	if len(all) == 0 {
		fmt.Fprintf(p.Err, "no proxy is connected to discovery at %s\n", p.discovery)
		return nil
	}
	w := newRows(p.Out)
	header := []string{"NAME", "ENVOY", "FORM", "CONNECTED"}
	for _, column := range proxyColumns {
		header = append(header, strings.ToUpper(column))
	}
	if p.output.format == wide {
		header = append(header, "REVISION", "NEWEST", "CLASS", "ADDRESS")
	}
	w.row(header...)
	for _, one := range all {
		row := []string{one.Proxy, orDash(one.Envoy), one.Form, age(one.Connected)}
		for _, column := range proxyColumns {
			row = append(row, p.statusOf(one, column))
		}
		if p.output.format == wide {
			row = append(row, orDash(one.Revision), orDash(one.Newest), orDash(one.Class), one.Address)
		}
		w.row(row...)
	}
	return w.Flush()
}

// statusOf returns the status of a type in a proxy, "-" if the proxy does not subscribe to it.
func (p *session) statusOf(of connectedProxy, typ string) string {
	for _, t := range of.Types {
		if t.Type == typ {
			return p.paintStatus(t.Status)
		}
	}
	return "-"
}

func (p *session) paintStatus(status string) string {
	styles := map[string]terminal.Style{"synced": terminal.Green, "stale": terminal.Yellow, nackedStatus: terminal.Red}
	return p.paint(styles[status], strings.ToUpper(status))
}

func (p *session) printProxy(one connectedProxy) error {
	w := newRows(p.Out)
	w.row("proxy", fmt.Sprintf("%s, a %s of the namespace %s, Envoy %s", one.Proxy, one.Role, one.Namespace, orDash(one.Envoy)))
	w.row("connected", fmt.Sprintf("for %s, from %s, in the form %s", age(one.Connected), one.Address, one.Form))
	w.row("class", orDash(one.Class))
	w.row("revision", orDash(one.Revision))
	if one.Newest != one.Revision {
		w.row("next", one.Newest)
	}
	fmt.Fprintln(w)
	w.row("TYPE", "STATUS", "RESOURCES", "SENT", "ACKED", "NACKED")
	for _, t := range one.Types {
		w.row(t.Type, p.paintStatus(t.Status), fmt.Sprint(t.Resources), t.Sent.text(), t.Acked.text(), t.Nacked.text())
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, t := range one.Types {
		for _, r := range t.Refused {
			fmt.Fprintf(p.Out, "\nrefuses of the %s, for %s: %s\n  %s\n", t.Type, age(r.Since), r.Name, firstLine(r.Reason))
		}
	}
	return nil
}

// text says which revision a message had, and how long ago.
func (m *proxyMessage) text() string {
	if m == nil {
		return "-"
	}
	text := fmt.Sprintf("%s, %s ago", m.Revision, span(time.Since(m.At)))
	if m.Reason != "" {
		text += ": " + firstLine(m.Reason)
	}
	return text
}
