package proxies

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/refusals"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// refusedState is the state of a proxy that refuses something.
const refusedState = "refused"

// proxyStates are the states of proxies in the mesh.
var proxyStates = []string{"synced", "sending", refusedState, "silent", "away"}

// oneDiscovery says how to do without mcp-server.
const oneDiscovery = "A discovery tells of its own proxies: --discovery " + session.DefaultDiscovery

// running is the printed form of a proxy in the mesh.
type running struct {
	Namespace      string            `json:"namespace"`
	Proxy          string            `json:"proxy"`
	Node           string            `json:"node"`
	Role           string            `json:"role"`
	ServiceAccount string            `json:"serviceAccount,omitempty"`
	Labels         map[string]string `json:"labels,omitempty"`
	Locality       string            `json:"locality,omitempty"`
	Network        string            `json:"network,omitempty"`
	Addresses      []string          `json:"addresses,omitempty"`
	Envoy          string            `json:"envoy,omitempty"`
	Agent          string            `json:"agent,omitempty"`
	Protocol       string            `json:"protocol,omitempty"`
	Discovery      string            `json:"discovery"`
	Server         string            `json:"server"`
	Connected      *time.Time        `json:"connectedAt,omitempty"`
	State          string            `json:"state"`
	Sent           int64             `json:"sent"`
	Runs           int64             `json:"runs"`
	Refused        uint32            `json:"refused"`
	Changed        *time.Time        `json:"changedAt,omitempty"`
	Gone           *time.Time        `json:"goneAt,omitempty"`
	CertificateEnd *time.Time        `json:"certificateEndsAt,omitempty"`
	Took           string            `json:"took,omitempty"`
}

// meshStatus lists the proxies of all discoveries, by what mcp-server has of them.
func (p program) meshStatus(ctx context.Context, state string) error {
	resp, err := session.Call(ctx, p.Session, adminv1.NewProxyServiceClient, adminv1.ProxyServiceClient.ListProxies,
		&adminv1.ListProxiesRequest{Namespaces: p.Namespace.Requested(), State: state})
	if err != nil {
		return orOneDiscovery(err)
	}
	list := runningOf(resp.GetProxies())
	if len(list) == 0 && !p.Output.IsTree() && p.Output.Format != output.Name {
		fmt.Fprintf(p.Err, "no discovery reports such a proxy to %s. %s\n", p.Server.Address, oneDiscovery)
		return nil
	}
	if err := p.PrintListing(p.runningListing(list)); err != nil {
		return err
	}
	for _, one := range list {
		if one.State == refusedState {
			return p.refusing(ctx)
		}
	}
	return nil
}

// refusing says what is refused, and ends the command so.
func (p program) refusing(ctx context.Context) error {
	if p.Output.IsTable() {
		if err := refusals.Print(ctx, p.Session); err != nil {
			return errors.Join(errRefusing, err)
		}
	}
	return errRefusing
}

// orOneDiscovery says what else there is, where mcp-server cannot tell of proxies.
func orOneDiscovery(err error) error {
	_, unreachable := errors.AsType[*failure.Unreachable](err)
	_, notOffered := errors.AsType[*failure.NotOffered](err)
	if unreachable || notOffered {
		return fmt.Errorf("%w. %s", err, oneDiscovery)
	}
	return err
}

func runningOf(proxies []*adminv1.RunningProxy) []running {
	list := []running{}
	for _, one := range proxies {
		list = append(list, running{
			one.GetNamespace(), one.GetProxy(), one.GetNode(), one.GetRole(), one.GetServiceAccount(), one.GetLabels(), one.GetLocality(), one.GetNetwork(), one.GetAddresses(),
			one.GetEnvoy(), one.GetAgent(), one.GetProtocol(), one.GetDiscovery(), one.GetServer(), output.TimeOf(one.GetConnectedAt()),
			one.GetState(), one.GetSent(), one.GetRuns(), one.GetRefused(), output.TimeOf(one.GetChangedAt()), output.TimeOf(one.GetGoneAt()),
			output.TimeOf(one.GetCertificateEndsAt()), tookOf(one),
		})
	}
	return list
}

func (p program) runningListing(list []running) output.Listing {
	out := output.Listing{
		Tree: list, Columns: []string{"NAMESPACE", "PROXY", "STATE", "RUNS", "SENT", "REFUSED", "DISCOVERY", "AGE"},
		Wide: []string{"ROLE", "SERVICE ACCOUNT", "ENVOY", "AGENT", "PROTOCOL", "LOCALITY", "NETWORK", "ADDRESSES", "SERVER", "CONNECTED", "CERTIFICATE ENDS", "TOOK"},
	}
	for _, one := range list {
		age := "-"
		if since := cmp.Or(one.Gone, one.Changed); since != nil {
			age = words.Age(*since)
		}
		out.Add(one.Proxy, one.Namespace, one.Proxy, p.paintState(one.State), words.Revision(one.Runs), words.Revision(one.Sent), fmt.Sprint(one.Refused), words.OrDash(one.Discovery), age,
			one.Role, words.OrDash(one.ServiceAccount), words.OrDash(one.Envoy), words.OrDash(one.Agent), words.OrDash(one.Protocol),
			words.OrDash(one.Locality), words.OrDash(one.Network), words.OrDash(strings.Join(one.Addresses, ",")), one.Server, words.ShortTime(one.Connected),
			words.ShortTime(one.CertificateEnd), words.OrDash(one.Took))
	}
	return out
}

// tookOf is how long the last change of a proxy took.
func tookOf(one *adminv1.RunningProxy) string {
	if one.GetTook() == nil {
		return ""
	}
	return one.GetTook().AsDuration().Round(100 * time.Microsecond).String()
}

func (p program) paintState(state string) string {
	styles := map[string]terminal.Style{"synced": terminal.Green, "sending": terminal.Yellow, "silent": terminal.Yellow, refusedState: terminal.Red}
	return p.Paint(styles[state], state)
}
