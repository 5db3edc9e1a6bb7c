package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
)

// backendTLS is a BackendTLSPolicy for a host, by the authority of a secret or a ConfigMap.
func backendTLS(name, host, kind, authority, hostname, names string) string {
	return fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: %s}
spec:
  targetRefs: [{group: networking.istio.io, kind: Hostname, name: %s}]
  validation: {hostname: %s, caCertificateRefs: [{group: "", kind: %s, name: %s}], subjectAltNames: [%s]}
`, name, host, hostname, kind, authority, names)
}

// authority writes a secret that has an authority.
func (m *mesh) authority(name, file string) {
	m.t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(m.t, err)
	m.secret(name, map[string]string{"ca.crt": string(text)})
}

// fails waits until nothing can be sent to a host.
func (m *mesh) fails(host string) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error { return m.status(ctx, host, http.StatusServiceUnavailable) })
}

// A policy has sidecars speak TLS, and check the name and the authority. Where the authority is not there
// nothing is sent.
func TestSidecarsObeyBackendTLSPolicies(t *testing.T) {
	t.Parallel()
	m, s := newMesh(t), newSecured(t, tls.NoClientCert)
	asked := make(chan string, 1)
	s.behave = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		w.Header().Set("Connection", "close") // each request is to be checked anew
		select {
		case asked <- r.TLS.ServerName:
		default:
		}
		return false
	}
	m.authority("ca", s.roots)
	m.commit(m.service(reviews, s.backend), backendTLS("a", reviews, "Secret", "ca", "secure.example.com", ""))
	m.answers(reviews, "secure")
	require.Equal(t, "secure.example.com", <-asked)

	m.commit(backendTLS("a", reviews, "Secret", "ca", "other.example.com", ""))
	m.fails(reviews)
	m.commit(backendTLS("a", reviews, "Secret", "ca", "other.example.com", "{type: Hostname, hostname: secure.example.com}"))
	m.answers(reviews, "secure")

	m.secret("ca", map[string]string{"ca.crt": string(certtest.NewAuthority(t).PEM)})
	m.fails(reviews)
	m.authority("ca", s.roots)
	m.answers(reviews, "secure")

	// A backend that speaks plaintext is not spoken to without TLS.
	m.commit(m.service(reviews, newBackend(t, "plain", nil)))
	m.fails(reviews)
	m.commit(m.service(reviews, s.backend))
	m.answers(reviews, "secure")
	m.commit(backendTLS("a", reviews, "ConfigMap", "ca", "secure.example.com", ""))
	m.fails(reviews)
}

// The example of the page works, and the policy says how it stands at the Gateway.
func TestThePageOfBackendTLSWorks(t *testing.T) {
	t.Parallel()
	m, s := newAPIGateway(t), newSecured(t, tls.NoClientCert)
	services, port := m.port, newPort(t)
	blocks := page(t, "../../../docs/gateway-api.md", "namespace: shop", "namespace: "+m.namespace, "web.shop.mesh, port: 80", "web.mesh, port: "+services,
		"web.shop.mesh}", "web.mesh}", "8080", port, "web.example.com", "secure.example.com")
	m.authority("authorities", s.roots)
	m.commit(m.service("web.mesh", s.backend), blockWith(t, blocks["yaml"], "name: edge, namespace"), blockWith(t, blocks["yaml"], "kind: BackendTLSPolicy"))
	m.port = port
	m.answers("shop.example.com", "secure")
	eventually(t, func(ctx context.Context) error {
		var text string
		if err := m.db.QueryRow(ctx, "SELECT status FROM mesh.status_of('BackendTLSPolicy', $1, 'web')", m.namespace).Scan(&text); err != nil {
			return err
		}
		var status struct {
			Ancestors []struct {
				AncestorRef struct{ Name string }
				Conditions  []struct{ Type, Status, LastTransitionTime string }
			}
		}
		if err := json.Unmarshal([]byte(text), &status); err != nil {
			return err
		}
		for _, a := range status.Ancestors {
			if a.AncestorRef.Name == "edge" && len(a.Conditions) == 2 && a.Conditions[0].Status == "True" && a.Conditions[1].Status == "True" && a.Conditions[0].LastTransitionTime != "" {
				return nil
			}
		}
		return fmt.Errorf("its status is %s", text)
	})
}
