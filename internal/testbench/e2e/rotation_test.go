package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// certificates are those that an Envoy has.
type certificates struct{ own, roots []string } // serial numbers

// certificatesOf asks Envoy for its present secrets. Its /certs also has those of connections that
// are still open.
func certificatesOf(ctx context.Context, m *mesh, p *stack.Program) (certificates, error) {
	a, err := sendURL(ctx, m.client, "http://"+p.Admin+"/config_dump?resource=dynamic_active_secrets", request{})
	if err != nil {
		return certificates{}, err
	}
	var dump struct {
		Configs []struct {
			Secret struct {
				Name string
				Own  struct {
					Chain source `json:"certificate_chain"`
				} `json:"tls_certificate"`
				Validation struct {
					Roots source `json:"trusted_ca"`
				} `json:"validation_context"`
			}
		}
	}
	if err := json.Unmarshal([]byte(a.body), &dump); err != nil {
		return certificates{}, fmt.Errorf("%w: %s", err, a.body)
	}
	var found certificates
	for _, c := range dump.Configs {
		switch c.Secret.Name {
		case "default":
			found.own = c.Secret.Own.Chain.serials()
		case "ROOTCA":
			found.roots = c.Secret.Validation.Roots.serials()
		}
	}
	return found, nil
}

// source is PEM in a dump.
type source struct {
	Bytes []byte `json:"inline_bytes"`
	Text  string `json:"inline_string"`
}

func (s source) serials() (all []string) {
	text := slices.Concat(s.Bytes, []byte(s.Text))
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			all = append(all, c.SerialNumber.Text(16))
		}
	}
	return all
}

// until waits until the certificates of all these Envoys are as wanted.
func (m *secureMesh) until(what string, wanted func(certificates) bool, members ...*stack.Program) {
	m.t.Helper()
	for _, p := range members {
		eventually(m.t, func(ctx context.Context) error {
			c, err := certificatesOf(ctx, m.mesh, p)
			if err == nil && !wanted(c) {
				err = fmt.Errorf("%s: not yet, it has %+v", what, c)
			}
			return err
		})
	}
}

// renews waits until each member has a new certificate.
func (m *secureMesh) renews(members ...*stack.Program) {
	m.t.Helper()
	for _, p := range members {
		before, err := certificatesOf(m.t.Context(), m.mesh, p)
		require.NoError(m.t, err)
		m.until("a new certificate", func(c certificates) bool { return !slices.Equal(c.own, before.own) }, p)
	}
}

// Every certificate is replaced, again and again, and then their root, while requests go over new
// connections all the time.
func TestRotationLosesNoRequest(t *testing.T) {
	t.Parallel()
	m := newSecureMesh(t, nil, "--cert-lifetime", "10s")
	port := newPort(t)
	m.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: ledger, namespace: shop}
spec:
  hosts: [ledger.mesh]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: %s, name: http, protocol: HTTP}]
  endpoints: [{address: 127.0.0.1, serviceAccount: ledger, ports: {http: %s}}]
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: ledger, namespace: shop}
spec:
  host: ledger.mesh
  trafficPolicy: {connectionPool: {http: {maxRequestsPerConnection: 5}}}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: ledger, namespace: shop}
spec:
  workloadSelector: {labels: {app: ledger}}
  egress: [{hosts: [~/*]}]
  ingress: [{port: {number: %s, name: http, protocol: HTTP}, bind: 127.0.0.1, defaultEndpoint: '127.0.0.1:%s'}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: default, namespace: istio-system}
spec: {mtls: {mode: STRICT}}
`, m.port, port, port, newBackend(t, "ledger", nil).port))
	server, client := m.member("shop/ledger", "ledger", "--labels", "app=ledger"), m.member("shop/cart", "cart")
	m.answers("ledger.mesh", "ledger")
	traffic := m.startTraffic("ledger.mesh", 500)
	for range 2 {
		m.renews(server, client)
	}

	old, err := certificatesOf(t.Context(), m.mesh, client)
	require.NoError(t, err)
	require.Len(t, old.roots, 1)
	m.authority("rotate")
	require.NoError(t, m.KeepRoots(t.Context()))
	m.until("both roots", func(c certificates) bool { return len(c.roots) == 2 }, server, client)
	m.authority("activate", "2", "--force")
	m.descend("discovery", "ledger", "cart")
	m.renews(server, client) // Envoy must have what its agent has
	m.authority("retire", "1", "--force")
	m.until("the new root alone", func(c certificates) bool { return len(c.roots) == 1 && c.roots[0] != old.roots[0] }, server, client)
	m.renews(server, client)

	rate, failure := traffic.end()
	t.Logf("%d requests, %.0f a second", traffic.sent.Load(), rate)
	require.Empty(t, failure)
}

// authority changes the mesh's authority, with the command that people use.
func (m *secureMesh) authority(args ...string) {
	m.t.Helper()
	out, err := m.Client(m.t.Context(), "", append([]string{"authority"}, args...)...)
	require.NoError(m.t, err, out)
	m.t.Log(strings.TrimSpace(out))
}

// descend waits until the certificates of these members lead to the root that signs now, and to no
// other.
func (m *secureMesh) descend(members ...string) {
	m.t.Helper()
	var root string
	require.NoError(m.t, m.db.QueryRow(m.t.Context(), "SELECT chain FROM mesh.authorities WHERE state = 'active'").Scan(&root))
	roots := x509.NewCertPool()
	require.True(m.t, roots.AppendCertsFromPEM([]byte(root)))
	for _, name := range members {
		eventually(m.t, func(context.Context) error {
			file := read(m.t, m.State(name), "identity.pem")
			pair, err := tls.X509KeyPair(file, file)
			if err != nil {
				return err
			}
			between := x509.NewCertPool()
			between.AppendCertsFromPEM(file)
			_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
			return err
		})
	}
}
