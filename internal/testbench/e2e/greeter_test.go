package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// greeter is a TCP application: it sends its name, and then echoes.
type greeter struct{ name, port string }

func newGreeter(t testing.TB, name string) *greeter {
	t.Helper()
	return serveGreeter(t, name, listen(t))
}

func serveGreeter(t testing.TB, name string, l net.Listener) *greeter {
	t.Helper()
	done := make(chan struct{})
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	go func() {
		defer close(done)
		greet(l, name)
	}()
	return &greeter{name, portOf(t, l)}
}

// greet serves connections until the listener is closed.
func greet(l net.Listener, name string) {
	var clients sync.WaitGroup
	defer clients.Wait()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		clients.Go(func() {
			defer conn.Close()
			fmt.Fprintln(conn, name)
			_, _ = io.Copy(conn, conn) // ends with the client
		})
	}
}

// converse opens a connection, reads the name, and checks the echo. It returns the name even if it
// fails later.
func converse(ctx context.Context, address string) (name string, err error) {
	return converseBy(ctx, new(net.Dialer).DialContext, address)
}

// converse does so from inside the namespace.
func (n *wired) converse(ctx context.Context, address string) (name string, err error) {
	return converseBy(ctx, n.Dial, address)
}

func converseBy(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error), address string) (name string, err error) {
	conn, err := dial(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	in := bufio.NewReader(conn)
	name, err = in.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("hear who is there: %w", err)
	}
	name = strings.TrimSpace(name)
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return name, err
	}
	if line, err := in.ReadString('\n'); err != nil || line != "hello\n" {
		return name, fmt.Errorf("%q came back for hello: %w", line, err)
	}
	return name, nil
}
