package attack

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// captures are ways to take over the requests for a host.
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

// Requests for a host that shop owns stay with shop, whatever evil writes, in SQL or over the API.
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

// Once hosts have owners, a Gateway of evil opens no port on the gateway of shop, although it
// selects it. Before that, it does.
func TestATenantOpensNoPortOnAGatewayOfOthers(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBystander(m)
	ports := map[string]string{"shop": fmt.Sprint(envoytest.Port(t)), "evil": fmt.Sprint(envoytest.Port(t))}
	m.member("shop/edge", "edge", "--role", "gateway", "--labels", "app=edge")
	opens := func(namespace string) string {
		return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: %[1]s}
spec: {selector: {app: edge}, servers: [{port: {number: %[2]s, name: http, protocol: HTTP}, hosts: ['%[1]s/*']}]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: edge, namespace: %[1]s}
spec: {hosts: [edge.%[1]s.example], gateways: [edge], http: [{directResponse: {status: 200, body: {string: %[1]s}}}]}
`, namespace, ports[namespace])
	}
	said, err := m.clientOf(m.token("evil", "write:evil"), opens("evil"), "apply", "-f", "-")
	require.NoError(t, err, said)
	b.apply(opens("shop"))
	for namespace, port := range ports {
		answersAt(t, port, "edge."+namespace+".example", namespace)
	}
	m.sql("SELECT mesh.grant_hosts('shop', '*.shop.mesh')")
	closes(t, ports["evil"])
	answersAt(t, ports["shop"], "edge.shop.example", "shop")

	m.sql("INSERT INTO mesh.settings (name, value) VALUES ('own_gateways', 'off')")
	answersAt(t, ports["evil"], "edge.evil.example", "evil")
	m.sql("UPDATE mesh.settings SET value = 'on' WHERE name = 'own_gateways'; SELECT mesh.revoke_hosts('*.shop.mesh')")
	closes(t, ports["evil"])
}

// answersAt waits until a host answers with a text at a port of this machine.
func answersAt(t *testing.T, port, host, text string) {
	t.Helper()
	poll.Eventually(t, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+port+"/", http.NoBody)
		if err != nil {
			return err
		}
		req.Host = host
		req.Close = true
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && string(body) != text {
			err = fmt.Errorf("%s at %s is answered %d %q", host, port, resp.StatusCode, body)
		}
		return err
	})
}

// closes waits until nothing listens at a port of this machine.
func closes(t *testing.T, port string) {
	t.Helper()
	poll.Eventually(t, func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
			return fmt.Errorf("port %s is open", port)
		}
		return nil
	})
}
