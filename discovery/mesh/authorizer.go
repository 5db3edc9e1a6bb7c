package mesh

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Authorizer is a service that decides about requests in place of rules. It is an extension
// provider of the MeshConfig that speaks Envoy's authorization protocol, over gRPC or HTTP.
type Authorizer struct {
	// Provider says how it is asked.
	Provider *meshconfig.MeshConfig_ExtensionProvider
	// Host and Port are those of its service.
	Host string
	Port uint32
	// Wrong says why it cannot be asked, and what to do; "" if it can. A request that it should
	// decide about is refused then.
	Wrong string

	at int // in the MeshConfig
}

// Authorizers are a mesh's authorizers by name. The next mesh has the same ones if all of them are
// asked in the same way.
type Authorizers struct{ named map[string]Authorizer }

// buildAuthorizers finds the services behind the providers. It returns those of prev if nothing
// changed.
func buildAuthorizers(prev *Mesh, config *meshconfig.MeshConfig, services *serviceIndex) *Authorizers {
	index := &Authorizers{named: map[string]Authorizer{}}
	for i, p := range config.GetExtensionProviders() {
		if p.GetEnvoyExtAuthzGrpc() == nil && p.GetEnvoyExtAuthzHttp() == nil {
			continue
		}
		a := newAuthorizer(p, services)
		if first, taken := index.named[p.GetName()]; taken {
			a = first
			a.Wrong = "two extension providers of the MeshConfig have its name. Rename one of them"
		}
		a.at = i
		index.named[p.GetName()] = a
	}
	if prev.authorizers != nil && maps.Equal(index.named, prev.authorizers.named) {
		return prev.authorizers
	}
	return index
}

// authorizerSettings are the settings that the providers of both protocols have.
type authorizerSettings interface {
	GetService() string
	GetPort() uint32
	GetTimeout() *durationpb.Duration
	GetStatusOnError() string
	GetIncludeRequestBodyInCheck() *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationRequestBody
}

func newAuthorizer(p *meshconfig.MeshConfig_ExtensionProvider, services *serviceIndex) Authorizer {
	var settings authorizerSettings = p.GetEnvoyExtAuthzGrpc()
	if web := p.GetEnvoyExtAuthzHttp(); web != nil {
		settings = web
	}
	a := Authorizer{Provider: p, Port: settings.GetPort()}
	var unknown string
	a.Host, unknown = services.behind(settings.GetService(), settings.GetPort())
	for _, wrong := range []string{wrongName(p.GetName()), unknown, wrongSettings(settings), wrongHTTP(p.GetEnvoyExtAuthzHttp())} {
		if wrong != "" {
			a.Wrong = wrong
			break
		}
	}
	return a
}

// behind finds the host of a service that is written as host, or as namespace/host. If there is
// none, wrong says why.
func (x *serviceIndex) behind(name string, port uint32) (host, wrong string) {
	namespace, host, named := strings.Cut(name, "/")
	if !named {
		namespace, host = "", name
	}
	namespaces, hasPort := map[string]bool{}, false
	for _, s := range x.byHost.get(host) {
		if !named || s.Namespace == namespace {
			namespaces[s.Namespace] = true
			hasPort = hasPort || s.Port(port) != nil
		}
	}
	switch {
	case len(namespaces) == 0:
		return "", fmt.Sprintf("no ServiceEntry has the service %q. Make one, or correct the provider's service", name)
	case len(namespaces) > 1:
		return "", fmt.Sprintf("the namespaces %s each have a service %q. Write it as namespace/%s",
			strings.Join(slices.Sorted(maps.Keys(namespaces)), ", "), name, name)
	case !hasPort:
		return "", fmt.Sprintf("the service %q has no port %d. Correct the provider's port", name, port)
	default:
		return host, ""
	}
}

// wrongName says what is wrong with a provider's name, which becomes part of the names of rules.
func wrongName(name string) string {
	for i, c := range name {
		inside := c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !inside && (c != '-' || i == 0 || i == len(name)-1) {
			return "its name has to be of lower-case letters, digits and \"-\", the first and the last a letter or digit, as Istio wants it. Rename it"
		}
	}
	if name == "" || len(name) > 63 {
		return "its name has to have 1 to 63 characters, as Istio wants it. Rename it"
	}
	return ""
}

// wrongSettings says which settings Envoy would refuse.
func wrongSettings(s authorizerSettings) string {
	if text := s.GetStatusOnError(); text != "" {
		code, err := strconv.ParseInt(text, 10, 32)
		if _, known := typev3.StatusCode_name[int32(code)]; err != nil || !known || code == 0 {
			return fmt.Sprintf("its statusOnError %q is no status of HTTP that Envoy knows. Write one, as 403 or 503", text)
		}
	}
	if t := s.GetTimeout(); t != nil && t.AsDuration() <= 0 {
		return "its timeout is not above zero. Write one as 2s, or leave it out for 10 minutes"
	}
	if body := s.GetIncludeRequestBodyInCheck(); body != nil && body.GetMaxRequestBytes() == 0 {
		return "its includeRequestBodyInCheck has no maxRequestBytes. Write how much of a body it is sent"
	}
	return ""
}

// wrongHTTP says what is wrong with the settings that only HTTP has.
func wrongHTTP(p *meshconfig.MeshConfig_ExtensionProvider_EnvoyExternalAuthorizationHttpProvider) string {
	if prefix := p.GetPathPrefix(); prefix != "" {
		if _, err := url.Parse(prefix); err != nil || !strings.HasPrefix(prefix, "/") {
			return fmt.Sprintf("its pathPrefix %q is no path. Begin it with a slash", prefix)
		}
	}
	for _, headers := range [][]string{
		p.GetIncludeRequestHeadersInCheck(), p.GetIncludeHeadersInCheck(), //nolint:staticcheck // Istio still reads it
		p.GetHeadersToUpstreamOnAllow(), p.GetHeadersToDownstreamOnDeny(), p.GetHeadersToDownstreamOnAllow(),
	} {
		if slices.Contains(headers, "*") {
			return `a list of its headers has "*", which no list can have alone. Write the names, or how they begin, as x-*`
		}
	}
	for name, value := range p.GetIncludeAdditionalHeadersInCheck() {
		if name == "" || strings.ContainsAny(name+value, "\x00\r\n") {
			return "its includeAdditionalHeadersInCheck has what no header can have. Correct it"
		}
	}
	return ""
}

// Authorizer returns the extension provider of this name.
func (m *Mesh) Authorizer(name string) Authorizer {
	if a, known := m.authorizers.named[name]; known {
		return a
	}
	return Authorizer{Wrong: "the MeshConfig has none of that name that is an envoyExtAuthzGrpc or an envoyExtAuthzHttp. Add it to the extensionProviders there"}
}

// Authorizers returns all of them, for comparison with those of another mesh.
func (m *Mesh) Authorizers() *Authorizers { return m.authorizers }

// problems are the problems of the MeshConfig's providers.
func (x *Authorizers) problems(m *Mesh) (out []Problem) {
	for r := range m.from.Of(kindMeshConfig) {
		for _, name := range slices.Sorted(maps.Keys(x.named)) {
			if a := x.named[name]; a.Wrong != "" {
				out = append(out, Problem{Of: r.Key(), Path: fmt.Sprintf("spec.extensionProviders[%d]", a.at), Reason: fmt.Sprintf(
					"the provider %q cannot be asked: %s", name, a.Wrong)})
			}
		}
		break
	}
	return out
}
