package gatewayapi

import (
	"strings"

	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
)

// AuthorityPrefix begins the names by which proxies ask for authorities that resources of the Gateway
// API name. They are public: whoever sees the resource's effect may have them.
const AuthorityPrefix = "gateway-api://"

// NoAuthority is the credential of TLS that trusts nobody. The name is Istio's.
const NoAuthority = "invalid://"

// The reasons of a ConfigMap or a Secret without authorities, and of what therefore trusts nobody.
const (
	reasonNoAuthority = "InvalidCACertificateRef"
	reasonNoTrust     = "NoValidCACertificate"
)

// Authority has the authorities that a resource names, under the name by which proxies ask for them.
type Authority struct {
	Name  string
	Trust credential.Trust
}

// trustCredential is the credential of what a resource, or a part of it, trusts.
func trustCredential(of *kinds.Resource, parts ...string) string {
	return AuthorityPrefix + strings.Join(append([]string{of.Kind.Name, of.Namespace, of.Name}, parts...), "/")
}
