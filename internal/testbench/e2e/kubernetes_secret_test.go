package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

const clusterSecret = "/api/v1/namespaces/edge/secrets/shop"

// lend makes a certificate for a host the Secret of the cluster for gateways of a service account, and
// returns its serial number.
func lend(t *testing.T, c *kubetest.Cluster, a *certtest.Authority, account string) string {
	t.Helper()
	p := a.Issue(func(c *x509.Certificate) { c.DNSNames = []string{"shop.example.com"} })
	c.Apply(clusterSecret, kubetest.Object{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
		"metadata": kubetest.Object{"name": "shop", "labels": kubetest.Object{"mesh.pgmesh.io/service-account": account}},
		"data":     map[string][]byte{"tls.crt": p.Cert, "tls.key": p.Key},
	})
	return serialOf(t, p).String()
}

// A gateway serves with a certificate that is a Secret of a cluster, and has the new one when it is
// renewed there. While the cluster is away it goes on, also with a server that was started meanwhile.
func TestAGatewayHasASecretOfKubernetes(t *testing.T) {
	t.Parallel()
	c, authority, database := kubetest.Start(t), certtest.NewAuthority(t), pgtest.New(t)
	c.Namespace("edge")
	first := lend(t, c, authority, "gate")
	control, err := stack.NewSecure(bin, t.TempDir(), database, nil)
	require.NoError(t, err)
	control.ServerFlags("--registry", "kubernetes://"+c.Kubeconfig(c.Address, c.Admin())+"?services=false&config=false&secrets=edge")
	m := secureMeshOf(t, control, database)
	m.namespace = "edge"
	port := newPort(t)
	m.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: gate}
spec:
  selector: {app: gate}
  servers: [{port: {number: %s, name: https, protocol: HTTPS}, hosts: [shop.example.com], tls: {mode: SIMPLE, credentialName: shop}}]
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: gate}
spec: {hosts: [shop.example.com], gateways: [gate], http: [{route: [{destination: {host: shop.mesh}}]}]}
`, port))
	m.commit(m.service("shop.mesh", newBackend(t, "shop", nil)))
	m.member("edge/gate", "gate", "--role", "gateway", "--labels", "app=gate")
	shows := func(serial string) {
		t.Helper()
		config := &tls.Config{RootCAs: authority.Pool(), ServerName: "shop.example.com", MinVersion: tls.VersionTLS12}
		eventually(t, func(ctx context.Context) error {
			conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address(port))
			if err != nil {
				return err
			}
			defer conn.Close()
			if is := conn.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(); is != serial {
				return fmt.Errorf("it shows the certificate %s, not %s", is, serial)
			}
			return nil
		})
	}
	shows(first)
	shows(lend(t, c, authority, "gate"))
	last := lend(t, c, authority, "gate")
	shows(last)

	// People are told of it, and nobody of its key.
	listed, err := m.Client(t.Context(), "", "get", "secrets", "-A", "-o", "wide")
	require.NoError(t, err)
	require.Regexp(t, `edge +shop +kubernetes.io/tls +shop.example.com,\S+ +\S+ +kubernetes +tls.crt,tls.key +gate `, listed)
	eventually(t, func(ctx context.Context) error {
		var found, problems int
		err := m.db.QueryRow(ctx, `SELECT (SELECT count(*) FROM mesh_internal.registry_entries WHERE kind = 'Secret' AND spec::text NOT LIKE '%PRIVATE%' AND spec::text NOT LIKE '%LS0t%'),
			(SELECT count(*) FROM mesh.problems WHERE code = 'unknown-credential')`).Scan(&found, &problems)
		if err == nil && (found != 1 || problems != 0) {
			err = fmt.Errorf("SQL knows of %d secrets, and says that %d are missing", found, problems)
		}
		return err
	})

	late := m.joinToken("edge/gate")
	c.Kill()
	says(t, m.MCPServer.Log, "the registry cannot be asked")
	m.MCPServer.Stop()
	require.NoError(t, m.MCPServer.Start())
	require.NoError(t, m.MCPServer.Ready(t.Context()))
	m.Discovery.Stop()
	require.NoError(t, m.Discovery.Start())
	require.NoError(t, m.Discovery.Ready(t.Context()))
	m.memberBy(late, "late", "--role", "gateway", "--labels", "app=late")
	shows(last)
	c.Restart()
	shows(lend(t, c, authority, "gate"))

	// Whom it is taken from does not keep it.
	lend(t, c, authority, "other")
	eventually(t, func(ctx context.Context) error {
		if page := m.problemsPage(ctx); !strings.Contains(page, "is for gateways of the service accounts other, and this one's is") {
			listed, _ := m.Client(ctx, "", "get", "secrets", "-A", "-o", "wide")
			return errors.New("the gateway still has it: " + page + "\n" + listed)
		}
		return nil
	})
}
