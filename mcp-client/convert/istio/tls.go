package istio

import (
	"slices"
	"strings"

	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// tls converts the TLS of a server. It is not ok if no listener can be like it.
func (c *conversion) tls(g *converted, spec *gateway.Gateway, server *networking.Server, at report.Place) (out *gateway.TLS, ok bool) {
	in := server.GetTls()
	at = at.In("tls")
	protocol := strings.ToUpper(server.GetPort().GetProtocol())
	if in == nil || protocol != "HTTPS" && protocol != "TLS" {
		return nil, true
	}
	c.tlsLeftOut(in, at)
	switch mode := in.GetMode(); mode {
	case networking.ServerTLSSettings_PASSTHROUGH:
		if protocol == "HTTPS" {
			c.Lose(at.In("mode"), "a listener of HTTPS ends TLS: the server is left out", "write TLS for the protocol of its port")
			return nil, false
		}
		return &gateway.TLS{Mode: "Passthrough"}, true
	case networking.ServerTLSSettings_AUTO_PASSTHROUGH:
		c.Lose(at.In("mode"), "the Gateway API has no AUTO_PASSTHROUGH: the server is left out", "keep it as a Gateway of networking.istio.io")
		return nil, false
	case networking.ServerTLSSettings_ISTIO_MUTUAL:
		return &gateway.TLS{Mode: "Terminate", Options: map[string]string{"gateway.istio.io/tls-terminate-mode": "ISTIO_MUTUAL"}}, true
	case networking.ServerTLSSettings_MUTUAL, networking.ServerTLSSettings_OPTIONAL_MUTUAL:
		c.clients(g, spec, server)
	}
	if in.GetCredentialName() == "" {
		c.Lose(at, "the certificate is no secret: the server is left out", "make one with mcp-client secret create tls, and name it in credentialName")
		return nil, false
	}
	ref := gateway.Ref{Name: in.GetCredentialName()}
	if namespace, name, found := strings.Cut(ref.Name, "/"); found {
		ref.Namespace, ref.Name = namespace[strings.LastIndex(namespace, ":")+1:], name
		c.AllowSecret(g.namespace, ref.Namespace)
	}
	return &gateway.TLS{Mode: "Terminate", Certificates: []gateway.Ref{ref}}, true
}

// clients has the clients of a port checked by the authority in the secret of the server.
func (c *conversion) clients(_ *converted, spec *gateway.Gateway, server *networking.Server) {
	port := int(server.GetPort().GetNumber())
	if spec.TLS == nil {
		spec.TLS = &gateway.Frontends{}
	}
	if slices.ContainsFunc(spec.TLS.Frontend.PerPort, func(p gateway.PerPort) bool { return p.Port == port }) {
		return
	}
	mode := ""
	if server.GetTls().GetMode() == networking.ServerTLSSettings_OPTIONAL_MUTUAL {
		mode = "AllowInsecureFallback"
	}
	name := server.GetTls().GetCredentialName()
	if separate := server.GetTls().GetCaCertCredentialName(); separate != "" {
		name = separate
	}
	spec.TLS.Frontend.PerPort = append(spec.TLS.Frontend.PerPort, gateway.PerPort{Port: port, TLS: gateway.FrontendTLS{
		Validation: &gateway.Validation{Authorities: []gateway.AuthorityRef{{Kind: "Secret", Name: name}}, Mode: mode},
	}})
}

// tlsLeftOut tells of fields that listeners do not have.
func (c *conversion) tlsLeftOut(in *networking.ServerTLSSettings, at report.Place) {
	for field, is := range map[string]bool{
		"minProtocolVersion": in.GetMinProtocolVersion() != 0, "maxProtocolVersion": in.GetMaxProtocolVersion() != 0,
		"cipherSuites": len(in.GetCipherSuites()) > 0, "ecdhCurves": len(in.GetEcdhCurves()) > 0,
	} {
		if is {
			c.Lose(at.In("%s", field), "listeners have no such field", "write it into tlsDefaults of the MeshConfig, for all listeners")
		}
	}
	for field, is := range map[string]bool{
		"subjectAltNames": len(in.GetSubjectAltNames()) > 0, "verifyCertificateSpki": len(in.GetVerifyCertificateSpki()) > 0,
		"verifyCertificateHash": len(in.GetVerifyCertificateHash()) > 0,
	} {
		if is {
			c.Lose(at.In("%s", field), "clients with other certificates of the authority are let in, too", "write an AuthorizationPolicy in the place of "+field)
		}
	}
}
