package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	security "istio.io/api/security/v1beta1"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/kinds"
)

// shownAuthorization says whom a proxy lets in, by the resources that its filters were made from.
type shownAuthorization struct {
	Proxy     string `json:"proxy"`
	Role      string `json:"role"`
	Namespace string `json:"namespace"`
	Revision  string `json:"revision"` // of the mesh that this is of
	// Current says that the proxy has accepted all of its listeners, and Judges that one of those has rules of the policies.
	Current bool `json:"current"`
	Judges  bool `json:"judges"`

	MutualTLS *shownMutualTLS `json:"mutual_tls,omitempty"` // of sidecars: gateways go by the TLS of their servers
	Tokens    []shownTokens   `json:"tokens"`
	Policies  []shownPolicy   `json:"policies"` // in the order in which they are asked
	// Others is what becomes of what no rule matches: allowed or refused.
	Others string `json:"others"`
}

// shownMutualTLS is which connections a workload accepts, and the PeerAuthentications that say so.
type shownMutualTLS struct {
	Mode        string      `json:"mode"` // in the words of a PeerAuthentication
	Policy      string      `json:"policy,omitempty"`
	Ports       []shownPort `json:"ports,omitempty"` // with a mode of their own
	Certificate bool        `json:"certificate"`     // the proxy has one, without which it takes plaintext or nothing
}

type shownPort struct {
	Port   uint32 `json:"port"`
	Mode   string `json:"mode"`
	Policy string `json:"policy"`
}

// shownTokens is how tokens of one issuer are checked.
type shownTokens struct {
	Policy    string   `json:"policy"`
	Issuer    string   `json:"issuer"`
	Audiences []string `json:"audiences,omitempty"`
}

// shownPolicy is an AuthorizationPolicy, with its rules as they are written.
type shownPolicy struct {
	Action   string            `json:"action"`
	Policy   string            `json:"policy"`
	DryRun   bool              `json:"dry_run,omitempty"`
	Provider string            `json:"provider,omitempty"` // that CUSTOM asks
	Wrong    string            `json:"wrong,omitempty"`    // why that cannot be asked, so that it refuses
	Rules    []json.RawMessage `json:"rules"`
}

func (i *Inspector) authorizationPage(r *http.Request) (any, error) {
	of, err := i.given(r)
	if err != nil {
		return nil, err
	}
	return authorization(i.Engine.Mesh(), of)
}

func authorization(m *mesh.Mesh, of client) (*shownAuthorization, error) {
	p := m.Known(of.Proxy)
	out := &shownAuthorization{
		Proxy: of.id(), Role: string(p.Type), Namespace: p.Namespace, Revision: strconv.FormatInt(m.Revision, 10),
		MutualTLS: mutualTLS(m, p), Tokens: tokens(m, p), Policies: []shownPolicy{}, Others: "allowed",
	}
	listeners := of.state(push.ListenerType)
	out.Current, out.Judges = statusOf(listeners) == synced, of.judges()
	for _, action := range evaluated {
		for _, a := range m.AuthorizationPolicies(p) {
			if a.Spec.GetAction() != action {
				continue
			}
			one, err := policy(m, a)
			if err != nil {
				return nil, err
			}
			out.Policies = append(out.Policies, one)
			if action == security.AuthorizationPolicy_ALLOW && !a.DryRun {
				out.Others = "refused"
			}
		}
	}
	return out, nil
}

// evaluated are the actions in the order in which a request meets them.
var evaluated = []security.AuthorizationPolicy_Action{
	security.AuthorizationPolicy_CUSTOM, security.AuthorizationPolicy_AUDIT, security.AuthorizationPolicy_DENY, security.AuthorizationPolicy_ALLOW,
}

// ofPolicy is in the names that translation gives to the rules of policies.
var ofPolicy = []byte("]-policy[")

// judges reports whether a listener that the client has accepted has rules of policies. Of one that it has from an earlier
// stream only the version is known, by which it is the one that it should have.
func (c client) judges() bool {
	for has := range c.state(push.ListenerType).Has.All() {
		if is := c.snapshot.Sets[push.ListenerType].Get(has.Name); has.Body == nil && is != nil && is.Version == has.Version {
			has = is
		}
		if bytes.Contains(has.Body.GetValue(), ofPolicy) {
			return true
		}
	}
	return false
}

func policy(m *mesh.Mesh, a *mesh.AuthorizationPolicy) (shownPolicy, error) {
	out := shownPolicy{Action: a.Spec.GetAction().String(), Policy: a.Resource.Key().FullName(), DryRun: a.DryRun, Rules: []json.RawMessage{}}
	if a.Spec.GetAction() == security.AuthorizationPolicy_CUSTOM {
		out.Provider = a.Spec.GetProvider().GetName()
		out.Wrong = m.Authorizer(out.Provider).Wrong
	}
	for _, rule := range a.Spec.GetRules() {
		text, err := protojson.Marshal(proto.Message(rule))
		if err != nil {
			return out, fmt.Errorf("show a rule of the AuthorizationPolicy %s: %w", out.Policy, err)
		}
		out.Rules = append(out.Rules, text)
	}
	return out, nil
}

func tokens(m *mesh.Mesh, p *mesh.Proxy) []shownTokens {
	out := []shownTokens{}
	for _, r := range m.TokenPolicies(p) {
		spec, _ := r.Spec.Message().(*security.RequestAuthentication)
		for _, rule := range spec.GetJwtRules() {
			out = append(out, shownTokens{r.Key().FullName(), rule.GetIssuer(), slices.Clone(rule.GetAudiences())})
		}
	}
	return out
}

// modes are those of mutual TLS in the words of a PeerAuthentication.
var modes = map[mesh.MutualTLS]string{mesh.PlaintextOnly: "DISABLE", mesh.MutualTLSOrNone: "PERMISSIVE", mesh.MutualTLSOnly: "STRICT"}

func mutualTLS(m *mesh.Mesh, p *mesh.Proxy) *shownMutualTLS {
	if p.Type != mesh.Sidecar {
		return nil
	}
	general, special := m.MutualTLSFrom(p.Namespace, p.Labels)
	const noPort = 0 // which none is about
	out := &shownMutualTLS{Mode: modes[m.WorkloadMutualTLS(p.Namespace, p.Labels, noPort)], Policy: nameOf(general), Certificate: p.Identity.Serves()}
	for _, port := range m.MutualTLSPorts(p.Namespace, p.Labels) {
		out.Ports = append(out.Ports, shownPort{port, modes[m.WorkloadMutualTLS(p.Namespace, p.Labels, port)], nameOf(special)})
	}
	return out
}

// nameOf is NAMESPACE/NAME of a resource, "" of none.
func nameOf(key *kinds.Key) string {
	if key == nil {
		return ""
	}
	return key.FullName()
}
