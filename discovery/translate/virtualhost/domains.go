package virtualhost

import (
	"strings"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/naming"
)

// Domains are the Host headers by which a service is meant: its name, short forms of it that the
// proxy's domain makes unambiguous (also returned alone), and its addresses. Ports do not count
// when hosts are matched.
func Domains(s *mesh.Service, p *mesh.Proxy) (domains, short []string) {
	short = shortForms(s.Hostname, p.Domain)
	domains = append([]string{naming.AsHost(s.Hostname)}, short...)
	for _, address := range s.AddressesFor(p) {
		if address != mesh.Unspecified {
			domains = append(domains, naming.AsHost(address))
		}
	}
	return domains, short
}

// shortForms are other names for a host: with the final dot of an absolute name, and without the
// end that it shares with the proxy's domain. For reviews.default.svc.cluster.local and a proxy in
// default.svc.cluster.local these are reviews, reviews.default and reviews.default.svc.
func shortForms(host, proxyDomain string) []string {
	var out []string
	if !mesh.IsAddress(host) {
		out = append(out, host+".")
	}
	if strings.Contains(proxyDomain, ".svc.") {
		if _, suffix, _ := strings.Cut(proxyDomain, ".svc."); strings.HasSuffix(host, ".svc."+suffix) {
			out = append(out, clusterForms(host, proxyDomain)...)
		}
		return out
	}
	return append(out, sharedForms(host, proxyDomain)...)
}

// clusterForms shorten a name of the form service.namespace.svc.domain. The bare service name is
// for its own namespace.
func clusterForms(host, proxyDomain string) []string {
	namespace, _, _ := strings.Cut(proxyDomain, ".svc.")
	full, _, _ := strings.Cut(host, ".svc.")
	service, in, dotted := strings.Cut(full, ".")
	if !dotted {
		return nil
	}
	if in == namespace {
		return []string{service, full + ".svc", full}
	}
	return []string{full, full + ".svc"}
}

// sharedForms shorten a name by the labels at its end that it shares with the proxy's domain.
func sharedForms(host, proxyDomain string) []string {
	shared, found := sharedEnd(host, proxyDomain)
	if !found || shared == 0 {
		return nil
	}
	unique := host[:shared-1]
	switch {
	case unique == "":
		return nil
	case strings.Count(unique, ".") == 1:
		first, _, _ := strings.Cut(host[shared:], ".")
		return []string{unique, host[:shared+len(first)]}
	}
	return []string{unique}
}

// sharedEnd finds where the labels begin that a host and a domain both end in.
func sharedEnd(host, domain string) (at int, found bool) {
	i, j := len(host), len(domain)
	for i > 0 && j > 0 && host[i-1] == domain[j-1] {
		i, j = i-1, j-1
	}
	if (i == 0 || host[i-1] == '.') && (j == 0 || domain[j-1] == '.') {
		return i, true
	}
	dot := strings.IndexByte(host[i:], '.') // before that is only the end of a label
	return i + dot + 1, dot >= 0
}
