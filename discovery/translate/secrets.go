package translate

import (
	"slices"
	"strings"

	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
	"github.com/pgmesh/pgmesh/discovery/translate/view"
)

// secretsOf are those that a proxy may ask for: those of the mesh that it may see, and those that name files of its machine.
//
// They are in the order of their names. Those of the mesh have what they stand for in them, those of files have paths alone.
func secretsOf(v view.View) []*tlsv3.Secret {
	out := append(meshSecrets(v.Mesh, v.Proxy), fileSecrets(v)...)
	slices.SortFunc(out, func(a, b *tlsv3.Secret) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

// meshSecrets are those of the mesh, by each name that a proxy may use: kubernetes://NAME for what is in its own namespace, or with
// the namespace before the name, and kubernetes-gateway://NAMESPACE/NAME as the Gateway API has it. With -cacert after the name it means
// the authorities: those of a secret that is called so, or else those in the secret of the name.
func meshSecrets(m *mesh.Mesh, p *mesh.Proxy) []*tlsv3.Secret {
	var out []*tlsv3.Secret
	secrets := m.SecretsFor(p)
	called := make(map[string]bool, len(secrets))
	for _, s := range secrets {
		called[s.Name] = true
	}
	for _, s := range secrets {
		if s.Pair != nil && !strings.HasSuffix(s.Name, rootsSuffix) {
			for _, name := range secretNames(s, s.Name) {
				out = append(out, certificateSecret(name, s))
			}
		}
		if s.Trust == nil {
			continue
		}
		for _, called := range trustNames(s, called) {
			for _, name := range secretNames(s, called) {
				out = append(out, trustSecret(name, s))
			}
		}
	}
	return out
}

// trustNames are those that mean the authorities of a secret.
func trustNames(s *mesh.Secret, called map[string]bool) (names []string) {
	if strings.HasSuffix(s.Name, rootsSuffix) {
		names = append(names, s.Name)
	}
	if !called[s.Name+rootsSuffix] {
		names = append(names, s.Name+rootsSuffix)
	}
	return names
}

// secretNames are the forms of a name.
func secretNames(s *mesh.Secret, name string) []string {
	return []string{
		credentialPrefix + name, credentialPrefix + s.Namespace + "/" + name, ofGatewayAPI + s.Namespace + "/" + name,
	}
}

// ofGatewayAPI is how the Gateway API's certificates are named.
const ofGatewayAPI = "kubernetes-gateway://"

func certificateSecret(name string, s *mesh.Secret) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: message.Bytes(s.Pair.Chain), PrivateKey: message.Bytes(s.Pair.Key), OcspStaple: message.Bytes(s.Pair.Staple),
	}}}
}

func trustSecret(name string, s *mesh.Secret) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{ValidationContext: &tlsv3.CertificateValidationContext{
		TrustedCa: message.Bytes(s.Trust.Authorities), Crl: message.Bytes(s.Trust.Revoked),
	}}}
}
