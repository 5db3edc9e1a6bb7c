package e2e

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

const ledger = "ledger.mesh"

// reaches waits until a connection to Envoy's port reaches a greeter.
func reaches(t testing.TB, port, name string) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		who, err := converse(ctx, address(port))
		if err == nil && who != name {
			err = fmt.Errorf("%s answers, not %s", who, name)
		}
		return err
	})
}

func TestConnectionsAreRoutedByPort(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	first, second := newPort(t), newPort(t)
	m.commit(tcpService(ledger, first, newGreeter(t, "one")), tcpService("audit.mesh", second, newGreeter(t, "two")))

	reaches(t, first, "one")
	reaches(t, second, "two")
}

func TestATransactionMovesConnectionsToASubset(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	port := newPort(t)
	tcp := func(subset string) string {
		return virtualService(ledger, fmt.Sprintf("tcp: [{route: [{destination: {host: %s, subset: %s}}]}]", ledger, subset))
	}
	m.commit(tcpService(ledger, port, newGreeter(t, "v1"), newGreeter(t, "v2")), subsets(ledger, "v1", "v2"), tcp("v1"))
	reaches(t, port, "v1")

	m.commit(tcp("v2"))
	reaches(t, port, "v2")

	m.transaction(func(tx pgx.Tx) {
		m.remove(tx, "VirtualService", "ledger")
		m.remove(tx, "DestinationRule", "ledger")
		m.put(tx, tcpService(ledger, port, newGreeter(t, "v3")))
	})
	reaches(t, port, "v3")
}

func TestAPortIsClosedWithItsService(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	port := newPort(t)
	m.commit(tcpService(ledger, port, newGreeter(t, "v1")))
	reaches(t, port, "v1")

	m.transaction(func(tx pgx.Tx) { m.remove(tx, "ServiceEntry", "ledger") })

	eventually(t, func(ctx context.Context) error {
		if who, err := converse(ctx, address(port)); err == nil {
			return fmt.Errorf("%s answers", who)
		}
		return nil
	})
}

func TestNamesAreResolved(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	b := newBackend(t, "named", nil)
	m.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: named}
spec:
  hosts: [named.mesh]
  resolution: DNS
  ports: [{number: %s, name: http, protocol: HTTP}]
  endpoints: [{address: localhost, ports: {http: %s}}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: local}
spec:
  hosts: [localhost]
  resolution: DNS_ROUND_ROBIN
  ports: [{number: %s, name: http, protocol: HTTP, targetPort: %s}]
`, m.port, b.port, m.port, b.port))

	m.answers("named.mesh", "named")
	m.answers("localhost", "named")
}

func TestWorkloadsComeAndGo(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	one, two := newBackend(t, "one", nil), newBackend(t, "two", nil)
	workload := func(b *backend, app string) string {
		return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: %s}
spec: {address: 127.0.0.1, ports: {http: %s}, labels: {app: %s, version: %s}}
`, b.name, b.port, app, b.name)
	}
	m.commit(fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: reviews}
spec:
  hosts: [reviews.mesh]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: %s, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: reviews}}
`, m.port), workload(one, "reviews"), workload(two, "something-else"))
	m.listening()
	m.answeredBy(reviews, "one")

	m.commit(workload(two, "reviews"))
	m.answeredBy(reviews, "one", "two")

	m.commit(subsets(reviews, "one", "two"), virtualService(reviews, split(reviews, weight{"two", 100})))
	m.answeredBy(reviews, "two")

	m.transaction(func(tx pgx.Tx) { m.remove(tx, "VirtualService", "reviews") })
	m.answeredBy(reviews, "one", "two")

	m.transaction(func(tx pgx.Tx) { m.remove(tx, "WorkloadEntry", "two") })
	m.answeredBy(reviews, "one")
}

func TestALimitedConnectionPoolRefusesMore(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	port := newPort(t)
	m.commit(tcpService(ledger, port, newGreeter(t, "v1")), `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: ledger}
spec: {host: ledger.mesh, trafficPolicy: {connectionPool: {tcp: {maxConnections: 1}}}}
`)
	reaches(t, port, "v1")
	held := hold(t, port)

	_, err := converse(t.Context(), address(port))
	require.Error(t, err, "a second connection")

	require.NoError(t, held.Close())
	reaches(t, port, "v1")
}

// hold opens a connection that has surely reached the backend.
func hold(t testing.TB, port string) (held net.Conn) {
	t.Helper()
	eventually(t, func(ctx context.Context) error {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "tcp", address(port))
		if err != nil {
			return err
		}
		if _, err := conn.Read(make([]byte, 1)); err != nil { // the connection before may not be closed yet
			conn.Close()
			return err
		}
		held = conn
		return nil
	})
	t.Cleanup(func() { held.Close() })
	return held
}
