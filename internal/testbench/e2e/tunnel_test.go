package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// speaker serves connections of one test, each on its own goroutine.
func speaker(t *testing.T, serve func(net.Conn)) (port string) {
	t.Helper()
	l := listen(t)
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return portOf(t, l)
}

func TestAPROXYHeaderTellsWhoTheClientIs(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	port := newPort(t)
	at := speaker(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		client, err := readPROXY(in)
		if err != nil {
			return
		}
		fmt.Fprintln(conn, client)
		_, _ = io.Copy(conn, in) // ends with the client
	})
	announced := func(version string) string {
		return fmt.Sprintf(`
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: ledger}
spec: {host: ledger.mesh, trafficPolicy: {proxyProtocol: {version: %s}}}
`, version)
	}
	m.commit(tcpService(ledger, port, &greeter{"v1", at}), announced("V1"))
	reaches(t, port, "127.0.0.1 as text")

	m.commit(announced("V2"))
	reaches(t, port, "127.0.0.1 in bytes")
}

// readPROXY reads a header of either version. It returns the client's address, and the version.
func readPROXY(in *bufio.Reader) (string, error) {
	start, err := in.Peek(5)
	if err != nil {
		return "", err
	}
	if string(start) == "PROXY" {
		line, err := in.ReadString('\n')
		return strings.Fields(line + " - - -")[2] + " as text", err
	}
	header := make([]byte, 28) // of an IPv4 connection: signature and kind, then both addresses and both ports
	if _, err := io.ReadFull(in, header); err != nil {
		return "", err
	}
	if string(header[:12]) != "\r\n\r\n\x00\r\nQUIT\n" {
		return "no PROXY header", nil
	}
	return net.IP(header[16:20]).String() + " in bytes", nil
}

// TestConnectionsGoThroughATunnel has a proxy that says what it was asked to connect to.
func TestConnectionsGoThroughATunnel(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	port := newPort(t)
	at := speaker(t, func(conn net.Conn) {
		in := bufio.NewReader(conn)
		r, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\n\r\n")
		fmt.Fprintln(conn, r.Method, r.Host)
		_, _ = io.Copy(conn, in) // ends with the client
	})
	m.commit(tcpService(ledger, port, &greeter{"v1", at}), `
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: ledger}
spec: {host: ledger.mesh, trafficPolicy: {tunnel: {protocol: CONNECT, targetHost: db.internal, targetPort: 5432}}}
`)
	reaches(t, port, "CONNECT db.internal:5432")
}
