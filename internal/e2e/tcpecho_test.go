package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
)

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

// converse opens a connection, hears who is there, and has a line repeated.
func converse(ctx context.Context, address string) (name string, err error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
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
	if _, err := fmt.Fprintln(conn, "hello"); err != nil {
		return "", err
	}
	if line, err := in.ReadString('\n'); err != nil || line != "hello\n" {
		return "", fmt.Errorf("%q came back for hello: %w", line, err)
	}
	return strings.TrimSpace(name), nil
}
