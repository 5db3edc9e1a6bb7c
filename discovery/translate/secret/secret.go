// Package secret lists the secrets that proxies may ask for, and says how they ask: by which names,
// and whom.
package secret

import (
	"slices"
	"strings"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
)

// Of lists the secrets that a proxy may ask discovery for, in the order of their names: those of
// the mesh that it may see, with their content, authorities that the Gateway API names, and those that
// name files of its machine, with paths alone.
func Of(v view.View) []*tlsv3.Secret {
	out := append(append(ofMesh(v.Mesh, v.Proxy), ofGatewayAPI(v.Mesh)...), ofFiles(v)...)
	slices.SortFunc(out, func(a, b *tlsv3.Secret) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

// ofMesh lists the mesh's secrets under each name that a proxy may use: kubernetes://NAME and
// kubernetes://NAMESPACE/NAME for those in its own namespace, and kubernetes-gateway://NAMESPACE/NAME,
// as the Gateway API has it. NAME-cacert means authorities: those of a secret with that name, or else
// those in the secret NAME.
func ofMesh(m *mesh.Mesh, p *mesh.Proxy) []*tlsv3.Secret {
	var out []*tlsv3.Secret
	secrets := m.SecretsFor(p)
	exists := make(map[named]bool, len(secrets))
	for _, s := range secrets {
		exists[named{s.Namespace, s.Name}] = true
	}
	for _, s := range secrets {
		if s.Pair != nil && !strings.HasSuffix(s.Name, kinds.AuthoritySuffix) {
			for _, name := range formsOf(p, s, s.Name) {
				out = append(out, certificate(name, s))
			}
		}
		if s.Trust == nil {
			continue
		}
		for _, roots := range rootsNames(s, exists) {
			for _, name := range formsOf(p, s, roots) {
				out = append(out, authorities(name, s.Trust))
			}
		}
	}
	return out
}

// named is the name of a secret.
type named struct{ namespace, name string }

// rootsNames are the names that mean the authorities of a secret.
func rootsNames(s *mesh.Secret, exists map[named]bool) (names []string) {
	if strings.HasSuffix(s.Name, kinds.AuthoritySuffix) {
		names = append(names, s.Name)
	}
	if !exists[named{s.Namespace, s.Name + kinds.AuthoritySuffix}] {
		names = append(names, s.Name+kinds.AuthoritySuffix)
	}
	return names
}

// formsOf writes a name in each form that a proxy uses. Secrets of other namespaces are lent to
// Gateways of the Gateway API alone, which have one form.
func formsOf(p *mesh.Proxy, s *mesh.Secret, name string) []string {
	whole := gatewayapi.CredentialPrefix + s.Namespace + "/" + name
	if s.Namespace != p.Namespace {
		return []string{whole}
	}
	return []string{credentialPrefix + name, credentialPrefix + s.Namespace + "/" + name, whole}
}

func certificate(name string, s *mesh.Secret) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: message.Bytes(s.Pair.Chain), PrivateKey: message.Bytes(s.Pair.Key), OcspStaple: message.Bytes(s.Pair.Staple),
	}}}
}

func authorities(name string, t *credential.Trust) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
		TrustedCa: message.Bytes(t.Authorities), Crl: message.Bytes(t.Revoked),
	}}}
}

// ofGatewayAPI lists the authorities that resources of the Gateway API name. They are for every proxy.
func ofGatewayAPI(m *mesh.Mesh) []*tlsv3.Secret {
	all := m.Authorities()
	if all == nil {
		return nil
	}
	out := make([]*tlsv3.Secret, len(all.List))
	for i := range all.List {
		out[i] = authorities(all.List[i].Name, &all.List[i].Trust)
	}
	return out
}
