package attack

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// captures are ways to take the requests for a host, as evil writes them.
func captures(host, port string) map[string]string {
	rule := func(kind, name, spec string) string {
		return fmt.Sprintf("apiVersion: networking.istio.io/v1\nkind: %s\nmetadata: {name: %s, namespace: evil}\nspec: %s\n", kind, name, spec)
	}
	return map[string]string{
		"a route":            rule("VirtualService", "capture", "{hosts: ["+host+"], http: [{directResponse: {status: 299}}]}"),
		"a route for all":    rule("VirtualService", "capture", "{hosts: ["+host+"], exportTo: ['*'], http: [{directResponse: {status: 299}}]}"),
		"a route for shop":   rule("VirtualService", "capture", "{hosts: ["+host+"], exportTo: [shop], http: [{directResponse: {status: 299}}]}"),
		"a service":          rule("ServiceEntry", "capture", "{hosts: ["+host+"], resolution: STATIC, ports: [{number: "+port+", name: http, protocol: HTTP}], endpoints: [{address: 127.0.0.1, ports: {http: 1}}]}"),
		"a service below":    rule("ServiceEntry", "capture", "{hosts: [www."+host+"], resolution: NONE, ports: [{number: "+port+", name: http, protocol: HTTP}]}"),
		"a wildcard":         rule("ServiceEntry", "capture", "{hosts: ['*.mesh'], resolution: NONE, ports: [{number: "+port+", name: http, protocol: HTTP}]}"),
		"a rule":             rule("DestinationRule", "capture", "{host: "+host+", trafficPolicy: {tls: {mode: SIMPLE}}}"),
		"a gateway":          rule("Gateway", "capture", "{selector: {app: client}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ['shop/"+host+"']}]}"),
		"a reserved service": rule("ServiceEntry", "capture", "{hosts: [discovery.mesh.internal], exportTo: ['.'], resolution: NONE, ports: [{number: 15012, name: tls, protocol: TLS}]}"),
	}
}

// Requests for a host that shop owns stay shop's, whatever evil writes, in SQL or by the API.
func TestATenantDoesNotCaptureHosts(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	m.sql("SELECT mesh.grant_hosts('shop', 'app.shop.mesh'), mesh.grant_hosts('shop', '*.app.shop.mesh'), mesh.grant_hosts('', 'discovery.mesh.internal')")
	token := m.token("evil", "write:evil")
	for how, yaml := range captures("app.shop.mesh", b.port) {
		said, err := m.clientOf(token, yaml, "apply", "-f", "-")
		require.Error(t, err, how)
		require.Contains(t, said, "to claim for others", how)
	}
	b.answers("app.shop.mesh", "shop")
	b.change()
}
