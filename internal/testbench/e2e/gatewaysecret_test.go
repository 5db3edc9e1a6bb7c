package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

// Two gateways of a namespace ask for the same secret, which is for one of them. Their certificates
// say who they are.
func TestASecretIsForTheGatewayThatItNames(t *testing.T) {
	t.Parallel()
	m := newSecureMesh(t, nil)
	m.namespace = "edge"
	authority := certtest.NewAuthority(t)
	_, cert, key := certified(t, authority, "shop.example.com")
	out, err := m.Client(t.Context(), "", "secret", "create", "tls", "shop", "-n", "edge", "--cert", cert, "--key", key, "--service-account", "gate")
	require.NoError(t, err, out)
	customers := map[string]customer{}
	for _, name := range []string{"gate", "other"} {
		port := newPort(t)
		m.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: %[1]s}
spec:
  selector: {app: %[1]s}
  servers: [{port: {number: %[2]s, name: https, protocol: HTTPS}, hosts: [shop.example.com], tls: {mode: SIMPLE, credentialName: shop}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %[1]s}
spec: {hosts: [shop.example.com], gateways: [%[1]s], http: [{route: [{destination: {host: shop.mesh}}]}]}
`, name, port))
		customers[name] = customer{m: m.mesh, port: port, tls: &tls.Config{RootCAs: authority.Pool(), MinVersion: tls.VersionTLS12}}
	}
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)))
	m.member("edge/gate", "gate", "--role", "gateway", "--labels", "app=gate")
	m.member("edge/other", "other", "--role", "gateway", "--labels", "app=other")

	customers["gate"].answers("shop.example.com", "shop")
	const why = `is for gateways of the service accounts gate, and this one's is "other"`
	eventually(t, func(ctx context.Context) error {
		if page := m.problemsPage(ctx); !strings.Contains(page, why) && !strings.Contains(page, strings.ReplaceAll(why, `"`, `\"`)) {
			return errors.New("discovery does not say who is not given the secret: " + page)
		}
		return nil
	})
	_, err = customers["other"].ask(t.Context(), request{host: "shop.example.com"})
	require.Error(t, err)
	require.NotContains(t, m.page(m.Discovery.HTTP(), "/problems"), `this one's is "gate"`)

	// The secret's accounts may change while they run.
	_, err = m.db.Exec(t.Context(), "UPDATE mesh.secrets SET service_accounts = '{gate,other}' WHERE namespace = 'edge' AND name = 'shop'")
	require.NoError(t, err)
	customers["other"].answers("shop.example.com", "shop")
	customers["gate"].answers("shop.example.com", "shop")
	eventually(t, func(ctx context.Context) error {
		if page := m.problemsPage(ctx); strings.Contains(page, "is for gateways of the service accounts") {
			return errors.New("it is still a problem: " + page)
		}
		return nil
	})
}
