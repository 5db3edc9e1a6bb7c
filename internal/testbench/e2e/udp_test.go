package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// serveDatagrams answers each datagram with a name, and returns the port of UDP.
func serveDatagrams(t testing.TB, name string) string {
	t.Helper()
	socket, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for buffer := make([]byte, 2048); ; {
			_, from, err := socket.ReadFrom(buffer)
			if err != nil {
				return
			}
			_, _ = socket.WriteTo([]byte(name), from) // who does not get it says so
		}
	}()
	t.Cleanup(func() {
		socket.Close()
		<-ended
	})
	return strconv.Itoa(socket.LocalAddr().(*net.UDPAddr).Port)
}

// socketTo is a socket of a client, from a port of its own.
func socketTo(ctx context.Context, port string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "udp", "127.0.0.1:"+port)
}

// exchange sends a datagram, and returns who has answered.
func exchange(ctx context.Context, socket net.Conn) (string, error) {
	deadline, _ := ctx.Deadline()
	if err := socket.SetDeadline(deadline); err != nil {
		return "", err
	}
	if _, err := socket.Write([]byte("?")); err != nil {
		return "", err
	}
	buffer := make([]byte, 2048)
	n, err := socket.Read(buffer)
	return string(buffer[:n]), err
}

// answerer is who answers a new socket; an error if nobody does for a while.
func (m *mesh) answerer(ctx context.Context, port string) (string, error) {
	socket, err := socketTo(ctx, port)
	if err != nil {
		return "", err
	}
	defer socket.Close()
	ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	return exchange(ctx, socket)
}

// eventuallyAnswered waits until somebody answers new sockets, or nobody.
func (m *mesh) eventuallyAnswered(port string, wanted bool) {
	m.t.Helper()
	eventually(m.t, func(ctx context.Context) error {
		switch _, err := m.answerer(ctx, port); {
		case wanted:
			return err
		case err == nil:
			return errors.New("somebody answers")
		default:
			return nil
		}
	})
}

// The example of docs/gateway-api.md, beside TCP on the same port.
func TestAGatewayCarriesDatagrams(t *testing.T) {
	t.Parallel()
	control, database := common.get(t)
	m := meshWithoutEnvoy(t, control, database)
	m.startAgent("--role", "gateway", "--gateway", "names")
	one, two, port := serveDatagrams(t, "one"), serveDatagrams(t, "two"), newPort(t)
	blocks := page(t, "../../../docs/gateway-api.md", "namespace: shop", "namespace: "+m.namespace, "5353", port,
		"address: 10.0.0.5", "address: 127.0.0.1, ports: {dns: "+one+"}", "address: 10.0.0.6", "address: 127.0.0.1, ports: {dns: "+two+"}")
	m.commit(blockWith(t, blocks["yaml"], "kind: UDPRoute"))
	m.eventuallyAnswered(port, true)

	// A socket has one backend, and sockets are divided by the weights.
	count := map[string]int{}
	for range 400 {
		who, err := m.answerer(t.Context(), port)
		require.NoError(t, err)
		count[who]++
	}
	require.InDelta(t, 300, count["one"], 60, count)
	require.Equal(t, 400, count["one"]+count["two"])
	socket, err := socketTo(t.Context(), port)
	require.NoError(t, err)
	defer socket.Close()
	ctx, cancel := context.WithTimeout(t.Context(), longestWait)
	defer cancel()
	first, err := exchange(ctx, socket)
	require.NoError(t, err)
	for range 20 {
		again, err := exchange(ctx, socket)
		require.NoError(t, err)
		require.Equal(t, first, again)
	}

	// In SQL all go to the other.
	_, err = m.db.Exec(t.Context(), "UPDATE mesh.udp_route_backends SET weight = CASE name WHEN 'dns.shop.mesh' THEN 0 ELSE 1 END WHERE namespace = $1", m.namespace)
	require.NoError(t, err)
	eventually(t, func(ctx context.Context) error {
		for range 20 {
			if who, err := m.answerer(ctx, port); err != nil || who != "two" {
				return fmt.Errorf("%s answers: %w", who, errors.Join(err, errors.New("wanted two")))
			}
		}
		return nil
	})

	// TCP has a port of the same number.
	queue := serveGreeter(t, "queue", listenOn(t, "127.0.0.1"))
	m.commit(`
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: {name: tcp}
spec: {parentRef: {name: names}, listeners: [{name: tcp, port: ` + port + `, protocol: TCP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: names}
spec: {gatewayClassName: pgmesh, allowedListeners: {namespaces: {from: Same}}, listeners: [{name: dns, port: ` + port + `, protocol: UDP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: TCPRoute
metadata: {name: queue}
spec: {parentRefs: [{kind: ListenerSet, name: tcp}], rules: [{backendRefs: [{group: networking.istio.io, kind: Hostname, name: queue.mesh, port: 9000}]}]}
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: queue}
spec: {hosts: [queue.mesh], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 9000, name: tcp, protocol: TCP}], endpoints: [{address: 127.0.0.1, ports: {tcp: ` + queue.port + `}}]}
`)
	m.port = port
	eventually(t, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address(port))
		if err != nil {
			return err
		}
		return conn.Close()
	})
	m.eventuallyAnswered(port, true)
}

func TestPoliciesDecideAboutDatagrams(t *testing.T) {
	t.Parallel()
	m := newAPIGateway(t)
	at, port := serveDatagrams(t, "one"), newPort(t)
	m.commit(listening("{name: dns, port: "+port+", protocol: UDP}"), `
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: dns}
spec: {hosts: [dns.mesh], location: MESH_INTERNAL, resolution: STATIC, ports: [{number: 53, name: dns, protocol: UDP}], endpoints: [{address: 127.0.0.1, ports: {dns: `+at+`}}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: UDPRoute
metadata: {name: dns}
spec: {parentRefs: [{name: edge}], rules: [{backendRefs: [`+toHost("dns.mesh", "53")+`]}]}
`)
	m.eventuallyAnswered(port, true)
	policy := func(spec string) string {
		return "apiVersion: security.istio.io/v1\nkind: AuthorizationPolicy\nmetadata: {name: dns}\nspec: " + spec
	}
	for _, c := range []struct {
		policy string
		passes bool
	}{
		{"{action: ALLOW, rules: [{from: [{source: {ipBlocks: [10.0.0.0/8]}}]}]}", false},
		{"{action: ALLOW, rules: [{from: [{source: {ipBlocks: [127.0.0.0/8]}}], to: [{operation: {ports: ['" + port + "']}}]}]}", true},
		{"{}", false}, // which refuses everybody
		{"{action: DENY, rules: [{from: [{source: {notIpBlocks: [127.0.0.0/8]}}]}]}", true},
		{"{action: DENY, rules: [{to: [{operation: {ports: ['" + port + "']}}]}]}", false},
		{"{action: DENY, rules: [{from: [{source: {principals: ['*']}}]}]}", true},
		{"{action: ALLOW, rules: [{from: [{source: {principals: ['*']}}]}]}", false},
		{"{action: ALLOW, rules: [{from: [{source: {notPrincipals: ['*']}}]}]}", true},
		{"{action: CUSTOM, provider: {name: nobody}, rules: [{}]}", false},
	} {
		m.commit(policy(c.policy))
		m.eventuallyAnswered(port, c.passes)
	}
}
