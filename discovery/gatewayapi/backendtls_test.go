package gatewayapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
)

func policyText(name, targets, validation string) string {
	return "---\napiVersion: gateway.networking.k8s.io/v1\nkind: BackendTLSPolicy\nmetadata: {name: " + name + "}\nspec: {targetRefs: [" + targets + "], validation: {" + validation + "}}\n"
}

const (
	toWeb     = "{group: '', kind: Service, name: web}"
	webHost   = "web.edge.svc.cluster.local"
	byMachine = "hostname: web.example.com, wellKnownCACertificates: System"
)

// secured reads the policies of a text, the oldest first. The secret ca has an authority.
func secured(t *testing.T, text string, authorities map[string]string) (out []*gatewayapi.Holding) {
	t.Helper()
	resources := parsed(t, text)
	for _, r := range resources {
		if authorities != nil {
			r.Annotations = map[string]string{kinds.OriginAuthoritiesAnnotation: kinds.WrittenAuthorities(authorities)}
		}
		p := gatewayapi.ReadPolicy(r)
		s := &gatewayapi.Holding{Policy: p, Effect: p.EffectBy(func(s gatewayapi.Secret) (credential.Trust, bool) {
			return credential.Trust{Authorities: []byte("of the secret")}, s == gatewayapi.Secret{Namespace: "edge", Name: "ca"}
		})}
		for _, target := range p.Targets {
			if target.Host != "" {
				s.Hosts = append(s.Hosts, []string{target.Host})
			} else {
				s.Hosts = append(s.Hosts, nil)
			}
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *gatewayapi.Holding) int { return kinds.CompareAge(a.Resource, b.Resource) })
	return out
}

// standings are how policies stand at a Gateway that leads to all that they are for, by their names.
func standings(all []*gatewayapi.Holding, ports []string) map[string]string {
	out := map[string]string{}
	for _, s := range all {
		var targets []int
		for i := range s.Targets {
			targets = append(targets, i)
		}
		gateway := kinds.Key{Kind: gatewayapi.KindGateway, Namespace: "edge", Name: "web"}
		status := s.Status([]gatewayapi.Ancestor{{Gateway: gateway, Targets: targets}}, func(host string) *gatewayapi.Held { return gatewayapi.Hold(host, all, ports) })
		for _, a := range status.Ancestors {
			out[s.Resource.Name] += a.AncestorRef.Name + " " + told(a.Conditions)
		}
	}
	return out
}

func TestTheOldestPolicyForATargetHolds(t *testing.T) {
	t.Parallel()
	all := secured(t, policyText("older", toWeb, byMachine)+policyText("later", toWeb, byMachine)+
		policyText("port", strings.Replace(toWeb, "}", ", sectionName: https}", 1), byMachine)+
		policyText("samePort", strings.Replace(toWeb, "}", ", sectionName: https}", 1), byMachine)+
		policyText("noPort", strings.Replace(toWeb, "}", ", sectionName: gone}", 1), byMachine)+
		policyText("noTarget", "{group: example.com, kind: Thing, name: web}", byMachine), nil)
	require.Equal(t, map[string]string{
		"older": "web " + taken, "port": "web " + taken,
		"later":    "web Accepted=False:Conflicted ResolvedRefs=True:ResolvedRefs",
		"samePort": "web Accepted=False:Conflicted ResolvedRefs=True:ResolvedRefs",
		"noPort":   "web Accepted=False:TargetNotFound ResolvedRefs=True:ResolvedRefs",
		"noTarget": "web Accepted=False:TargetNotFound ResolvedRefs=True:ResolvedRefs",
	}, standings(all, []string{"http", "https"}))
	held := gatewayapi.Hold(webHost, all, []string{"http", "https"})
	require.Equal(t, "older", held.Every.Resource.Name)
	require.Equal(t, "port", held.Ports["https"].Resource.Name)
	require.Len(t, held.From(), 2)
	require.Equal(t, "web Accepted=False:TargetNotFound ResolvedRefs=True:ResolvedRefs", standings(all, nil)["older"], "there is no such service")

	at := all[0].Status(nil, func(string) *gatewayapi.Held { return held })
	require.Equal(t, "Service web", *at.Ancestors[0].AncestorRef.Kind+" "+at.Ancestors[0].AncestorRef.Name, "no Gateway leads there")
}

// What cannot be checked trusts nobody, and says why.
func TestAPolicyTrustsOnlyWhatItNames(t *testing.T) {
	t.Parallel()
	const (
		invalid = "web Accepted=False:NoValidCACertificate ResolvedRefs=False:"
		own     = "gateway-api://BackendTLSPolicy/edge/a"
	)
	ref := func(kind, name string) string {
		return "{group: '', kind: " + kind + ", name: " + name + "}"
	}
	for name, c := range map[string]struct{ validation, standing, credential, trusted string }{
		"the machine's":                 {byMachine, "web " + taken, "", ""},
		"a secret":                      {"hostname: a.com, caCertificateRefs: [" + ref("Secret", "ca") + "]", "web " + taken, own, "of the secret\n"},
		"a ConfigMap":                   {"hostname: a.com, caCertificateRefs: [" + ref("ConfigMap", "ca") + "]", "web " + taken, own, "of the map\n"},
		"both":                          {"hostname: a.com, caCertificateRefs: [" + ref("ConfigMap", "ca") + ", " + ref("Secret", "ca") + "]", "web " + taken, own, "of the map\nof the secret\n"},
		"one that is gone":              {"hostname: a.com, caCertificateRefs: [" + ref("ConfigMap", "gone") + "]", invalid + "InvalidCACertificateRef", "invalid://", ""},
		"a secret that is gone":         {"hostname: a.com, caCertificateRefs: [" + ref("Secret", "gone") + "]", invalid + "InvalidCACertificateRef", "invalid://", ""},
		"a kind that has none":          {"hostname: a.com, caCertificateRefs: [" + ref("Service", "ca") + "]", invalid + "InvalidKind", "invalid://", ""},
		"one of two is gone":            {"hostname: a.com, caCertificateRefs: [" + ref("ConfigMap", "gone") + ", " + ref("ConfigMap", "ca") + "]", "web Accepted=True:Accepted ResolvedRefs=False:InvalidCACertificateRef", own, "of the map\n"},
		"authorities that nobody knows": {"hostname: a.com, wellKnownCACertificates: example.com/mine", "web Accepted=False:Invalid ResolvedRefs=True:ResolvedRefs", "invalid://", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := secured(t, policyText("a", toWeb, c.validation), map[string]string{"edge/ca": "of the map"})
			require.Equal(t, c.standing, standings(all, []string{"http"})["a"])
			require.Equal(t, c.credential, all[0].TLS.GetCredentialName())
			require.Equal(t, c.trusted == "", all[0].Trusted == nil)
			if c.trusted != "" {
				require.Equal(t, c.trusted, string(all[0].Trusted.Trust.Authorities))
				require.Equal(t, own+"-cacert", all[0].Trusted.Name)
			}
			require.NotEmpty(t, all[0].TLS.GetSubjectAltNames(), "the name is always checked")
		})
	}
}

func TestAPolicySaysWhichNamesAreChecked(t *testing.T) {
	t.Parallel()
	all := secured(t, policyText("a", toWeb, byMachine)+policyText("b", toWeb, byMachine+", subjectAltNames: [{type: Hostname, hostname: b.com}, {type: URI, uri: 'spiffe://b/c'}]"), nil)
	require.Equal(t, []string{"web.example.com"}, all[0].TLS.GetSubjectAltNames())
	require.Equal(t, []string{"b.com", "spiffe://b/c"}, all[1].TLS.GetSubjectAltNames())
	require.Equal(t, "web.example.com", all[1].TLS.GetSni())
}

// A Gateway has clients checked by the authorities that it carries.
func TestClientsAreCheckedByConfigMaps(t *testing.T) {
	t.Parallel()
	read := func(namespace string) *gatewayapi.Gateway {
		resources := parsed(t, gatewayText("tls: {frontend: {default: {validation: {caCertificateRefs: [{group: '', kind: ConfigMap, name: ca, namespace: "+namespace+
			"}]}}}}, listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: web}]}}]"))
		r := resources["Gateway web"]
		r.Annotations = map[string]string{kinds.OriginAuthoritiesAnnotation: kinds.WrittenAuthorities(map[string]string{"edge/ca": "one", "other/ca": "two"})}
		return gatewayapi.ReadGateway(r, nil, gatewayapi.ReadClasses(slices.Values([]*kinds.Resource(nil))), grantsOf(resources))
	}
	g := read("edge")
	require.True(t, g.Listeners[0].Served())
	carried := g.Authorities(nil)
	require.Len(t, carried, 1)
	require.Equal(t, "gateway-api://Gateway/edge/web/443-cacert one", carried[0].Name+" "+string(carried[0].Trust.Authorities))
	g = read("other")
	require.False(t, g.Listeners[0].Served(), "no grant allows it")
	require.Empty(t, g.Authorities(nil))
}
