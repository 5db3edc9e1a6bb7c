package gatewayapi_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/kinds"
)

// Of several authorities those count that can be had, and the listener says which cannot.
func TestClientsAreCheckedByAllAuthorities(t *testing.T) {
	t.Parallel()
	ref := func(kind, name string) string { return "{group: '', kind: " + kind + ", name: " + name + "}" }
	const (
		accepted = "Accepted=True:Accepted ResolvedRefs="
		nobody   = "Accepted=False:NoValidCACertificate ResolvedRefs=False:"
		together = "gateway-api://Gateway/edge/web/443-cacert"
		secret   = "kubernetes-gateway://edge/"
	)
	for name, c := range map[string]struct{ refs, stands, named, trusted string }{
		"two secrets":             {ref("Secret", "ca") + ", " + ref("Secret", "more"), accepted + "True:ResolvedRefs", together, "of ca\nof more"},
		"a secret and a map":      {ref("Secret", "ca") + ", " + ref("ConfigMap", "map"), accepted + "True:ResolvedRefs", together, "of ca\nof the map"},
		"one of them is gone":     {ref("Secret", "gone") + ", " + ref("Secret", "ca"), accepted + "False:InvalidCACertificateRef", together, "of ca"},
		"a map of them is gone":   {ref("ConfigMap", "gone") + ", " + ref("Secret", "ca"), accepted + "False:InvalidCACertificateRef", together, "of ca"},
		"one of them has none":    {ref("Service", "ca") + ", " + ref("ConfigMap", "map"), accepted + "False:InvalidCACertificateKind", together, "of the map"},
		"both secrets are gone":   {ref("Secret", "gone") + ", " + ref("Secret", "lost"), nobody + "InvalidCACertificateRef", together, ""},
		"neither is one":          {ref("Service", "ca") + ", " + ref("ConfigMap", "gone"), nobody + "InvalidCACertificateKind", "", ""},
		"a single secret":         {ref("Secret", "ca"), accepted + "True:ResolvedRefs", secret + "ca-cacert", ""},
		"a single secret is gone": {ref("Secret", "gone"), nobody + "InvalidCACertificateRef", secret + "gone-cacert", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resources := parsed(t, gatewayText("tls: {frontend: {default: {validation: {caCertificateRefs: ["+c.refs+"]}}}}, listeners: [{name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: web}]}}]"))
			r := resources["Gateway web"]
			r.Annotations = map[string]string{kinds.OriginAuthoritiesAnnotation: kinds.WrittenAuthorities(map[string]string{"edge/map": "of the map"})}
			g := gatewayapi.ReadGateway(r, nil, gatewayapi.ReadClasses(slices.Values([]*kinds.Resource(nil))), grantsOf(resources))
			trust := func(s gatewayapi.Secret) (found credential.Trust, has bool) {
				if has = s.Name == "ca" || s.Name == "more"; has {
					found.Authorities = []byte("of " + s.Name)
				}
				return found, has
			}
			var want []gatewayapi.Authority
			if c.trusted != "" {
				want = []gatewayapi.Authority{{Name: together, Trust: credential.Trust{Authorities: []byte(c.trusted)}}}
			}
			require.Equal(t, want, g.Authorities(trust))
			require.Equal(t, c.named != "", g.Listeners[0].Served())
			if c.named != "" {
				require.Contains(t, fmt.Sprint(g.Listeners[0].Resource.Spec.Message()), c.named)
			}
			status := g.Statuses(gatewayapi.Beside{Attached: func(gatewayapi.At) int { return 0 }, Known: func(gatewayapi.Secret) bool { return true }, Trusts: trust})
			require.Contains(t, told(status[r.Key()].Listeners[0].Conditions), c.stands)
		})
	}
}
