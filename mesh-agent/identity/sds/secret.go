package sds

import (
	"maps"
	"slices"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/identity/authority"
	"github.com/pgmesh/pgmesh/identity/membership"
)

func certificate(name string, chain, key []byte) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: &tlsv3.TlsCertificate{
		CertificateChain: inline(chain), PrivateKey: inline(key),
	}}}
}

func roots(name string, pem []byte) *tlsv3.Secret {
	return validation(name, &tlsv3.CertificateValidationContext{TrustedCa: inline(pem)})
}

func validation(name string, context *tlsv3.CertificateValidationContext) *tlsv3.Secret {
	return &tlsv3.Secret{Name: name, Type: &tlsv3.Secret_ValidationContext{ValidationContext: context}}
}

func inline(content []byte) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: content}}
}

// trustBundle returns whom the mesh trusts. With federated meshes Envoy has to choose the roots by
// the trust domain of the peer's identity; otherwise each mesh could vouch for the members of all
// others.
func trustBundle(name string, t *membership.Trust) *tlsv3.Secret {
	own := authority.EncodeCertificates(t.Roots...)
	if len(t.Federated) == 0 {
		return roots(name, own)
	}
	config := &tlsv3.SPIFFECertValidatorConfig{}
	addDomain := func(domain string, pem []byte) {
		config.TrustDomains = append(config.TrustDomains, &tlsv3.SPIFFECertValidatorConfig_TrustDomain{Name: domain, TrustBundle: inline(pem)})
	}
	domains := append([]string{t.Domain}, t.Aliases...)
	slices.Sort(domains)
	for _, domain := range slices.Compact(domains) { // Envoy rejects duplicates
		addDomain(domain, own)
	}
	for _, domain := range slices.Sorted(maps.Keys(t.Federated)) {
		addDomain(domain, authority.EncodeCertificates(t.Federated[domain]...))
	}
	packed, err := anypb.New(config)
	if err != nil {
		panic(err) // cannot fail: trust domains are ASCII
	}
	return validation(name, &tlsv3.CertificateValidationContext{
		CustomValidatorConfig: &corev3.TypedExtensionConfig{Name: "envoy.tls.cert_validator.spiffe", TypedConfig: packed},
	})
}
