package mesh

import (
	"fmt"
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// Class is what translation depends on in a proxy. Proxies of equal classes get identical resources
// from one mesh. A class means something only together with the mesh that made it.
type Class struct {
	Traits

	Namespace string
	// Domain is the suffix that the proxy may leave out of host names.
	Domain string
	// Targets is what the proxy's workload serves.
	Targets string
	// Addresses are the proxy's own, if its Sidecar makes it listen there or send there.
	Addresses string
	// Patches are the patches that are for the proxy.
	Patches string
	// Policies are the policies that incoming requests have to pass.
	Policies string
	// Tokens are the policies about tokens that are for the proxy.
	Tokens string
	// Telemetry are the Telemetries that hold for the proxy, and what its spans and metrics say that it
	// is.
	Telemetry string
	// Defaults are the ProxyConfigs for the proxy, also those that change nothing for it: the class
	// tells whom they concern.
	Defaults string
	// Extensions say what listeners have of the extensions that are for the proxy.
	Extensions string
	// PullAccount is the service account of a proxy with an agent and an extension whose module is
	// pulled with a secret, which may be for some accounts alone.
	PullAccount string
	// Tags describe the proxy in traces.
	Tags string
	// ServiceAccount is a router's, and decides which secrets it may have.
	ServiceAccount string
	// OnDemand is the proxy's.
	OnDemand bool
}

// Traits are what the translation of outbound clusters, endpoints and routes depends on in a proxy,
// beside its scope, and for routes its namespace. Proxies of many classes have equal traits. How
// connections are accepted and logged is among them. What the proxy serves is not, nor the names by
// which it calls others.
type Traits struct {
	Type         ProxyType
	Interception Interception

	// Labels are those labels only that some rule selects by.
	Labels string
	// Locality is region/zone/subzone.
	Locality string
	// Settings are the remaining traits: address families, privileges, timeouts.
	Settings string
	// Config is the proxy's own configuration.
	Config string
}

// Class returns the class of a proxy.
func (m *Mesh) Class(p *Proxy) Class {
	p = m.Known(p)
	account := ""
	if p.Type == Router {
		account = p.ServiceAccount
	}
	return Class{
		Traits:      m.Traits(p),
		Namespace:   p.Namespace,
		Domain:      p.Domain,
		Targets:     encodeTargets(m.Targets(p)),
		Addresses:   m.ingressAddresses(p),
		Patches:     encodePatches(m.Patches(p)),
		Policies:    encodePolicies(m.AuthorizationPolicies(p)),
		Tokens:      encodeTokens(m.tokenPolicies(p)),
		Telemetry:   encodeNamed(m.telemetriesOf(p)) + m.spanServices(p) + m.measured(p),
		Defaults:    encodeDefaults(m.proxyDefaults(p)),
		Extensions:  encodeExtensions(m.Extensions(p)),
		PullAccount: m.pullAccount(p),
		Tags:        fmt.Sprintln(p.MeshID, p.Cluster, p.CanonicalName(), p.CanonicalRevision()),
		OnDemand:    p.OnDemand,

		ServiceAccount: account,
	}
}

// Traits returns the traits of a proxy.
func (m *Mesh) Traits(p *Proxy) Traits {
	p = m.Known(p)
	return Traits{
		Type: p.Type, Interception: p.Interception,
		Labels:   m.selecting(p).encode(p.Labels),
		Locality: m.LocalityOf(p),
		Settings: m.settings(p),
		Config:   encodeProxyConfig(p.Config),
	}
}

// settings encodes the traits that have no field of their own.
func (m *Mesh) settings(p *Proxy) string {
	return fmt.Sprintln(
		p.HasIPv4(), p.HasIPv6(), p.onLoopback(),
		p.Unprivileged,
		p.ReservedPorts,
		p.IdleTimeout,
		p.HTTP10,
		p.InboundExactBalance, p.OutboundExactBalance,
		p.Identity,
		m.NetworkOfProxy(p), p.NetworkView,
		p.HTTPProxyPort,
		p.DNSCapture, p.Resolver,
		m.own(p), m.askedFor(p),
	)
}

// selecting returns the names of the labels that tell proxies of this type apart.
func (m *Mesh) selecting(p *Proxy) labelNames {
	if p.Type == Router {
		return m.routerLabels
	}
	return m.selected
}

func (m *Mesh) ingressAddresses(p *Proxy) string {
	if r := m.sidecars.sidecarOf(p); r != nil && len(specOf[*networking.Sidecar](r).GetIngress()) > 0 {
		return strings.Join(p.Addresses, ",")
	}
	return ""
}

// own returns the proxy's address if a service there passes connections on to where clients sent
// them: listeners differ then.
func (m *Mesh) own(p *Proxy) string {
	for _, t := range m.services.byAddress.get(p.Addresses[0]) {
		if slices.ContainsFunc(m.services.hosts.get(t.Service.key()).all, (*Service).passedOn) {
			return p.Addresses[0]
		}
	}
	return ""
}

func encodeTargets(targets []Target) string {
	var b strings.Builder
	for _, t := range targets {
		fmt.Fprintf(&b, "%s/%s:%d:%d,", t.Service.Namespace, t.Service.Hostname, t.Port.Number, t.Number)
	}
	return b.String()
}
