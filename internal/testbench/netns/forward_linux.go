package netns

import (
	"context"
	"io"
	"net"
	"sync"
)

// Forward forwards an address in the namespace to one on the host, such as its Postgres, until the
// test ends.
func (n *Namespace) Forward(address, to string) {
	n.t.Helper()
	listener := n.Listen("tcp", address)
	ctx, end := context.WithCancel(context.Background())
	var connections sync.WaitGroup
	n.t.Cleanup(func() {
		end()
		listener.Close()
		connections.Wait()
	})
	connections.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { forward(ctx, conn, to) })
		}
	})
}

// forward copies in both directions until one side ends or ctx does.
func forward(ctx context.Context, here net.Conn, to string) {
	defer here.Close()
	there, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	hangUp := func() { here.Close(); there.Close() }
	defer context.AfterFunc(ctx, hangUp)()
	var back sync.WaitGroup
	back.Go(func() {
		defer hangUp()
		_, _ = io.Copy(here, there)
	})
	_, _ = io.Copy(there, here)
	hangUp()
	back.Wait()
}
