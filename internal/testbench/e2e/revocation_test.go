package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// refusing is a mesh whose ledger clients call until they are revoked.
type refusing struct {
	*secureMesh

	ledger *stack.Program
}

func newRefusing(t *testing.T, lifetime string) *refusing {
	t.Helper()
	m := &refusing{secureMesh: newSecureMesh(t, nil, "--cert-lifetime", lifetime)}
	m.commit(m.workload("ledger", newPort(t), newBackend(t, "ledger", nil)), logging("host=%REQ(:AUTHORITY)% %RESPONSE_CODE% %RESPONSE_CODE_DETAILS%"))
	m.ledger = m.member("shop/ledger", "ledger", "--labels", "app=ledger", "--listener-drain-time", "1s")
	return m
}

// asking starts a machine that calls the ledger.
func (m *refusing) asking(identity, name, ip string) *stack.Program {
	m.t.Helper()
	m.commit(m.egressOn("shop", name, ip, "shop"))
	p := m.member(identity, name, "--labels", "app="+name, "--node-ip", ip)
	m.becomes(ip, "ledger.mesh", http.StatusOK)
	m.becomes(ip, "held.ledger.mesh", http.StatusOK)
	return p
}

// identity changes a membership, with the command that people use, and returns when it was done.
func (m *secureMesh) identity(args ...string) time.Time {
	m.t.Helper()
	out, err := m.Client(m.t.Context(), "", append([]string{"identity"}, args...)...)
	require.NoError(m.t, err, out)
	return time.Now()
}

// refusedTimes is how often discovery refused proxies because they were revoked.
func (m *secureMesh) refusedTimes(ctx context.Context) (float64, error) {
	metrics, err := scrape(ctx, m.Discovery)
	return metrics[`pgmesh_discovery_proxies_refused_total{reason="revoked"}`], err
}

// hears waits until changes that are committed from now on reach the Envoy of a client.
func (m *refusing) hears(name, client string) {
	m.t.Helper()
	host := "news-for-" + name + ".mesh"
	m.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: %s, namespace: shop}
spec: {hosts: [%s], http: [{directResponse: {status: 299}}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: %[1]s, namespace: shop}
spec: {hosts: [%[2]s], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: %[3]s, name: http, protocol: HTTP}]}
`, host, host, m.port))
	m.becomes(client, host, 299)
}

func TestARevokedIdentityLosesAccess(t *testing.T) {
	t.Parallel()
	m := newRefusing(t, "16s") // so that renewals come, and the member is restored long before its certificate ends
	const client = "127.0.0.2"
	cart := m.asking("shop/cart", "cart", client)
	pid := cart.Pid()

	done := m.identity("revoke", "shop/cart", "--reason", "its key was in a backup")
	m.becomes(client, "ledger.mesh", http.StatusForbidden)
	t.Logf("new connections are refused %s after the command has returned", time.Since(done).Round(time.Millisecond))
	m.stays(client, "ledger.mesh", http.StatusForbidden)
	m.becomes(client, "held.ledger.mesh", http.StatusForbidden)
	t.Logf("a connection that stood has ended after %s", time.Since(done).Round(time.Millisecond))

	says(t, m.Discovery.Log, `revoked.*its key was in a backup`)
	eventually(t, func(ctx context.Context) error {
		times, err := m.refusedTimes(ctx)
		if err == nil && times < 2 { // the open stream, and the next
			err = fmt.Errorf("its proxy was turned away %v times", times)
		}
		return err
	})
	const here = `identity = 'spiffe://cluster.local/ns/shop/sa/cart'`
	m.recorded(1, here+` AND credential = 'token' AND refusal IS NULL`)
	m.recorded(1, here+` AND credential = 'certificate' AND refusal = 'revoked' AND detail LIKE '%its key was in a backup%'`)
	says(t, cart.Log, "could not be renewed.*revoked")

	done = m.identity("restore", "shop/cart")
	m.becomes(client, "ledger.mesh", http.StatusOK)
	t.Logf("it is let in %s after it was restored", time.Since(done).Round(time.Millisecond))
	m.becomes(client, "held.ledger.mesh", http.StatusOK)
	m.renews(cart)
	m.recorded(1, here+` AND credential = 'certificate' AND refusal IS NULL`)
	m.hears("cart", client)
	t.Logf("it is given configuration %s after it was restored", time.Since(done).Round(time.Millisecond))
	require.Equal(t, pid, cart.Pid())
	for _, host := range []string{`ledger`, `held\.ledger`} { // Envoy has written these lines by now: it keeps them for up to ten seconds
		says(t, m.ledger.Log, `host=`+host+`\.mesh 403 rbac_access_denied_matched_policy\[revoked-ns\[shop\]-sa\[cart\]\]`)
	}
}

// Two machines share an identity, and one is revoked. Discovery can tell them apart; other machines
// cannot.
func TestARevokedMachineLearnsNothingMore(t *testing.T) {
	t.Parallel()
	m := newRefusing(t, "12s")
	const client, other = "127.0.0.2", "127.0.0.3"
	thief, honest := m.asking("shop/cart", "cart-1", client), m.asking("shop/cart", "cart-2", other)
	machine := m.certificate("cart-1").Subject.SerialNumber
	require.NotEqual(t, machine, m.certificate("cart-2").Subject.SerialNumber)

	before, err := m.refusedTimes(t.Context())
	require.NoError(t, err)
	done := m.identity("revoke", machine, "--reason", "the laptop was stolen")
	eventually(t, func(ctx context.Context) error {
		times, err := m.refusedTimes(ctx)
		if err == nil && times == before {
			err = errors.New("its stream goes on")
		}
		return err
	})
	t.Logf("its stream has ended %s after the command has returned", time.Since(done).Round(time.Millisecond))
	m.stays(client, "ledger.mesh", http.StatusOK) // its certificate has not ended
	out, err := m.Run(t.Context(), "mesh-agent", "status", "--state-dir", m.State("cart-1"))
	exit, _ := errors.AsType[*exec.ExitError](err)
	require.NotNil(t, exit, out)
	require.Equal(t, 3, exit.ExitCode(), out)
	require.Regexp(t, `^membership +revoked, since \S+ \(\d+s ago\), the machine `+machine+`, the laptop was stolen\n`, out)
	says(t, m.Discovery.Log, "the machine "+machine+" was revoked")
	says(t, thief.Log, "could not be renewed.*revoked")
	m.recorded(1, `enrolment = $1 AND credential = 'certificate' AND refusal = 'revoked'`, machine)
	m.renews(honest)
	m.hears("cart-2", other)
	status, err := m.asks(t.Context(), client, "news-for-cart-2.mesh")
	require.NoError(t, err)
	require.NotEqual(t, 299, status)

	m.becomes(client, "ledger.mesh", http.StatusServiceUnavailable) // it has ended now
	t.Logf("other machines refuse it since its certificate has ended, %s after the command has returned", time.Since(done).Round(time.Millisecond))
	m.stays(other, "ledger.mesh", http.StatusOK)

	// It joins again beside its agent, and is another machine of the identity.
	pid := thief.Pid()
	out, err = m.join(m.joinToken("shop/cart"), m.State("cart-1"), "--again", "--take-over")
	require.NoError(t, err, out)
	require.Contains(t, out, "has taken that up, and nothing was interrupted")
	m.becomes(client, "ledger.mesh", http.StatusOK)
	m.hears("cart-1", client)
	require.Equal(t, pid, thief.Pid())
	require.NotEqual(t, machine, m.certificate("cart-1").Subject.SerialNumber)
	eventually(t, func(ctx context.Context) error {
		if out, err := m.Run(ctx, "mesh-agent", "status", "--state-dir", m.State("cart-1")); err != nil {
			return errors.New(out)
		}
		return nil
	})
}
