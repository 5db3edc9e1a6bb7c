package mesh

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	meshconfig "istio.io/api/mesh/v1alpha1"
)

// Provider is an extension provider of the MeshConfig, as telemetry goes to it.
type Provider struct {
	// Spec says what it is, and how it is spoken to.
	Spec *meshconfig.MeshConfig_ExtensionProvider
	// Collector is the service behind it; the zero value if it is a file, or the proxy itself.
	Collector Collector
	// Sampler is the service that says which requests are traced; the zero value if none does.
	Sampler Collector
	// Wrong says why nothing can be sent to it, and what to do; "" if it can.
	Wrong string

	at int // in the MeshConfig, or builtIn
}

// Collector is a port of a service.
type Collector struct {
	Host string
	Port uint32
}

// builtIn is the place of providers that are there without a MeshConfig.
const builtIn = -1

// builtInProviders are there in every mesh, as in Istio's. A MeshConfig may say otherwise what
// their names stand for.
var builtInProviders = []*meshconfig.MeshConfig_ExtensionProvider{
	{Name: "prometheus", Provider: &meshconfig.MeshConfig_ExtensionProvider_Prometheus{
		Prometheus: &meshconfig.MeshConfig_ExtensionProvider_PrometheusMetricsProvider{},
	}},
	{Name: "envoy", Provider: &meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog{
		EnvoyFileAccessLog: &meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLogProvider{Path: "/dev/stdout"},
	}},
}

// providerIndex has the providers by name, in lower case. The next mesh has the same one if none of
// them changed.
type providerIndex struct {
	named map[string]Provider
	// twice are the places of those that a later one of the same name replaces.
	twice []int
	// collectors are the services behind all of them, each once, sorted.
	collectors []Collector
}

// buildProviders finds the services behind the providers. It returns those of prev if nothing
// changed.
func buildProviders(prev *Mesh, config *meshconfig.MeshConfig, services *serviceIndex) *providerIndex {
	index := &providerIndex{named: map[string]Provider{}}
	for _, spec := range builtInProviders {
		index.named[spec.GetName()] = Provider{Spec: spec, at: builtIn}
	}
	for i, spec := range config.GetExtensionProviders() {
		index.add(newProvider(spec, i, services))
	}
	index.collect()
	if prev.providers != nil && maps.Equal(index.named, prev.providers.named) && slices.Equal(index.twice, prev.providers.twice) {
		return prev.providers
	}
	return index
}

func (x *providerIndex) collect() {
	for _, p := range x.named {
		for _, c := range []Collector{p.Collector, p.Sampler} {
			if c != (Collector{}) && !slices.Contains(x.collectors, c) {
				x.collectors = append(x.collectors, c)
			}
		}
	}
	slices.SortFunc(x.collectors, func(a, b Collector) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port)) })
}

// add adds a provider. As by Istio, of several with one name the last one counts, and of names that
// differ in their case alone the first one.
func (x *providerIndex) add(p Provider) {
	name := strings.ToLower(p.Spec.GetName())
	before, taken := x.named[name]
	switch {
	case !taken:
		x.named[name] = p
	case before.Spec.GetName() != p.Spec.GetName():
		x.twice = append(x.twice, p.at)
	default:
		if x.named[name] = p; before.at != builtIn {
			x.twice = append(x.twice, before.at)
		}
	}
}

func newProvider(spec *meshconfig.MeshConfig_ExtensionProvider, at int, services *serviceIndex) Provider {
	p := Provider{Spec: spec, at: at}
	if p.Wrong = wrongSending(spec); p.Wrong != "" {
		return p
	}
	if to := collecting(spec); to != nil {
		p.Collector, p.Wrong = services.collector(to)
	}
	if sampling := spec.GetOpentelemetry().GetDynatraceSampler().GetHttpService(); sampling != nil && p.Wrong == "" {
		p.Sampler, p.Wrong = services.collector(sampling)
	}
	return p
}

// addressed is a provider's settings that name a service.
type addressed interface {
	GetService() string
	GetPort() uint32
}

// collecting returns the settings of a provider that telemetry is sent to; nil for others.
func collecting(spec *meshconfig.MeshConfig_ExtensionProvider) addressed {
	switch p := spec.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_Zipkin:
		return p.Zipkin
	case *meshconfig.MeshConfig_ExtensionProvider_Datadog:
		return p.Datadog
	case *meshconfig.MeshConfig_ExtensionProvider_Skywalking:
		return p.Skywalking
	case *meshconfig.MeshConfig_ExtensionProvider_Opentelemetry:
		return p.Opentelemetry
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls:
		return p.EnvoyHttpAls
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpAls:
		return p.EnvoyTcpAls
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyOtelAls:
		return p.EnvoyOtelAls
	default:
		return nil
	}
}

func (x *serviceIndex) collector(to addressed) (c Collector, wrong string) {
	host, wrong := x.behind(to.GetService(), to.GetPort())
	if wrong != "" {
		return Collector{}, wrong
	}
	return Collector{Host: host, Port: to.GetPort()}, ""
}

// LogsAccess reports whether access logs can go to the provider.
func (p Provider) LogsAccess() bool {
	switch p.Spec.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_EnvoyFileAccessLog, *meshconfig.MeshConfig_ExtensionProvider_EnvoyHttpAls,
		*meshconfig.MeshConfig_ExtensionProvider_EnvoyTcpAls, *meshconfig.MeshConfig_ExtensionProvider_EnvoyOtelAls:
		return true
	default:
		return false
	}
}

// Traces reports whether traces can go to the provider.
func (p Provider) Traces() bool {
	switch p.Spec.GetProvider().(type) {
	case *meshconfig.MeshConfig_ExtensionProvider_Zipkin, *meshconfig.MeshConfig_ExtensionProvider_Datadog,
		*meshconfig.MeshConfig_ExtensionProvider_Skywalking, *meshconfig.MeshConfig_ExtensionProvider_Opentelemetry:
		return true
	default:
		return false
	}
}

// serves reports whether any telemetry can go to the provider.
func (p Provider) serves() bool { return p.LogsAccess() || p.Traces() || p.Measures() }

// Measures reports whether the provider shows metrics.
func (p Provider) Measures() bool { return p.Spec.GetPrometheus() != nil }

// find returns the provider of a name, in whatever case.
func (x *providerIndex) find(name string) (Provider, bool) {
	p, known := x.named[strings.ToLower(name)]
	return p, known
}

// problems are those of the MeshConfig's providers.
func (x *providerIndex) problems(m *Mesh) (out []Problem) {
	of, some := m.MeshConfig()
	if !some {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(x.named)) {
		if p := x.named[name]; p.Wrong != "" {
			out = append(out, Problem{Of: of, Path: fmt.Sprintf("spec.extensionProviders[%d]", p.at), Reason: fmt.Sprintf(
				"nothing can be sent to the provider %q: %s", p.Spec.GetName(), p.Wrong)})
		}
	}
	for _, at := range x.twice {
		if spec := m.Config.GetExtensionProviders()[at]; !(Provider{Spec: spec}).serves() {
			continue
		}
		out = append(out, Problem{Of: of, Path: fmt.Sprintf("spec.extensionProviders[%d]", at), Reason: fmt.Sprintf(
			"is without effect for telemetry: another provider has the name %q, too. Rename one of them", m.Config.GetExtensionProviders()[at].GetName())})
	}
	return out
}

// collectorsFor lists the services that telemetry of proxies in a namespace may go to. They need
// clusters, whatever a Sidecar shows to applications.
func (c *catalog) collectorsFor(namespace string) (out []*Service) {
	for _, to := range c.providers.collectors {
		if s := c.destination(namespace, to.Host); s != nil && s.Port(to.Port) != nil {
			out = append(out, s.only([]uint32{to.Port}))
		}
	}
	return out
}

// collects reports whether telemetry may go to a host.
func (x *providerIndex) collects(host string) bool {
	return slices.ContainsFunc(x.collectors, func(c Collector) bool { return c.Host == host })
}

// Reaches reports whether proxies have a cluster for a collector.
func (s *Scope) Reaches(c Collector) bool {
	service := s.Service(c.Host)
	return service != nil && service.Port(c.Port) != nil
}
