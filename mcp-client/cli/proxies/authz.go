package proxies

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/internal/kit/terminal"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

// Authz returns the command authz and its subcommands.
func Authz(s *session.Session) *cobra.Command {
	p := program{s}
	return arguments.Family(&cobra.Command{
		Use:   "authz",
		Short: "Tell whom a proxy lets in",
		Long:  `Tell whom a proxy lets in. What you may do on the server yourself, "auth" tells.`,
	}, p.authzCheckCommand())
}

func (p program) authzCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check PROXY",
		Short: "List the policies by which a proxy lets in or refuses, in the order in which they are asked",
		Long: `List the policies by which a proxy lets in or refuses what comes to its workload, or through a gateway: the mode of mutual TLS with the
PeerAuthentication that says so, the issuers whose tokens are checked, and each rule of the AuthorizationPolicies for it, in the order in which they are asked.
A rule matches by one of its FROM, one of its TO and all of its WHEN. Last is what becomes of all others.

  CUSTOM   what matches is asked of the provider, which may refuse it
  AUDIT    what matches is noted, and nothing else
  DENY     what matches is refused
  ALLOW    if there is one, a rule of one has to match

The discovery tells that the proxy is connected to, by the configuration that it sends. -o json has the rules as they are written.`,
		Example: `  mcp-client authz check vm-1
  mcp-client authz check vm-1.default -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeProxies,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.authzCheck(cmd.Context(), proxyID(args[0])) },
	}
}

// authorization is the page /debug/authorization.
type authorization struct {
	Proxy     string `json:"proxy"`
	Role      string `json:"role"`
	Namespace string `json:"namespace"`
	Revision  string `json:"revision"`
	Current   bool   `json:"current"`
	Judges    bool   `json:"judges"`
	MutualTLS *struct {
		Mode        string `json:"mode"`
		Policy      string `json:"policy"`
		Certificate bool   `json:"certificate"`
		Ports       []struct {
			Port   uint32 `json:"port"`
			Mode   string `json:"mode"`
			Policy string `json:"policy"`
		} `json:"ports"`
	} `json:"mutual_tls"`
	Tokens []struct {
		Policy    string   `json:"policy"`
		Issuer    string   `json:"issuer"`
		Audiences []string `json:"audiences"`
	} `json:"tokens"`
	Policies []authorizing `json:"policies"`
	Others   string        `json:"others"`
}

// authorizing is an AuthorizationPolicy of the page.
type authorizing struct {
	Action   string            `json:"action"`
	Policy   string            `json:"policy"`
	DryRun   bool              `json:"dry_run"`
	Provider string            `json:"provider"`
	Wrong    string            `json:"wrong"`
	Rules    []json.RawMessage `json:"rules"`
}

func (p program) authzCheck(ctx context.Context, proxy string) error {
	body, err := p.page(ctx, "/debug/authorization", url.Values{"proxy": {proxy}})
	if err != nil {
		return err
	}
	if p.Output.IsTree() {
		return p.PrintTree(json.RawMessage(body))
	}
	var a authorization
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("read what discovery at %s lets proxies do: %w", p.Discovery, err)
	}
	return p.printAuthorization(&a)
}

func (p program) printAuthorization(a *authorization) error {
	w := output.NewRows(p.Out)
	w.Row("proxy", fmt.Sprintf("%s, a %s of the namespace %s, as of revision %s", a.Proxy, a.Role, a.Namespace, a.Revision))
	w.Row("mutual TLS", a.mutualTLS())
	for _, t := range a.Tokens {
		of := "of " + t.Issuer
		if len(t.Audiences) > 0 {
			of += " for " + strings.Join(t.Audiences, ", ")
		}
		w.Row("tokens", of+" are checked, by the RequestAuthentication "+t.Policy+": a bad one is refused, and without any a request passes on")
	}
	w.Row()
	w.Row("ACTION", "POLICY", "FROM", "TO", "WHEN")
	for _, one := range a.Policies {
		if err := one.write(w); err != nil {
			return err
		}
	}
	w.Row("all others", p.others(a.Others))
	if err := w.Flush(); err != nil {
		return err
	}
	if doubt := a.doubt(); doubt != "" {
		fmt.Fprintln(p.Err, "warning:", doubt)
	}
	return nil
}

// doubt says why the proxy may do otherwise than its policies say, "" if it does not.
func (a *authorization) doubt() string {
	const idle = "no listener of the proxy has these rules, for nothing comes in through it. "
	switch tls := a.MutualTLS; {
	case !a.Current:
		return "the proxy has not accepted all of its listeners, and goes on with what it had: mcp-client proxy-status " + a.Proxy
	case a.Judges || len(a.Policies) == 0:
		return ""
	case tls != nil && !tls.Certificate && tls.Mode == strictTLS:
		return idle + "It refuses everything, being without a certificate"
	}
	return idle + "A Sidecar with ingress, or redirected traffic, puts it before its workload"
}

const strictTLS = "STRICT"

// others says what becomes of what no rule matches.
func (p program) others(are string) string {
	if are == "refused" {
		return p.Paint(terminal.Yellow, "refused") + ", since there is an ALLOW"
	}
	return p.Paint(terminal.Green, "let in") + ", since there is no ALLOW"
}

// modesOfTLS says what a proxy accepts by each mode.
var modesOfTLS = map[string]string{strictTLS: "no plaintext", "PERMISSIVE": "mutual TLS and plaintext", "DISABLE": "no mutual TLS"}

func (a *authorization) mutualTLS() string {
	tls := a.MutualTLS
	if tls == nil {
		return "as the tls of each server of its Gateways says"
	}
	by := func(policy string) string {
		if policy == "" {
			return ", as where no PeerAuthentication says anything"
		}
		return ", by the PeerAuthentication " + policy
	}
	parts := []string{fmt.Sprintf("%s (%s)%s", tls.Mode, modesOfTLS[tls.Mode], by(tls.Policy))}
	for _, port := range tls.Ports {
		parts = append(parts, fmt.Sprintf("of port %d %s (%s)%s", port.Port, port.Mode, modesOfTLS[port.Mode], by(port.Policy)))
	}
	text := strings.Join(parts, "; ")
	if !tls.Certificate {
		text += ". The proxy has no certificate: it takes plaintext, and under STRICT nothing"
	}
	return text
}

// write writes a row for each rule.
func (a *authorizing) write(w *output.Rows) error {
	action := a.Action
	if a.DryRun {
		action += " (dry run, refuses nobody)"
	}
	policy := a.Policy
	if a.Provider != "" {
		policy += ", asks " + a.Provider
	}
	if a.Wrong != "" {
		policy += ", which cannot be asked, so that it refuses"
	}
	if len(a.Rules) == 0 {
		w.Row(action, policy, "nobody", "-", "-")
	}
	for _, text := range a.Rules {
		rule := &security.Rule{}
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, rule); err != nil {
			return fmt.Errorf("read a rule of the AuthorizationPolicy %s: %w", a.Policy, err)
		}
		w.Row(action, policy, fromText(rule), toText(rule), whenText(rule))
	}
	return nil
}
