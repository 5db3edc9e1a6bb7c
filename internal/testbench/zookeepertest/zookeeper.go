// Package zookeepertest gives a test a real ZooKeeper, of one server or three, and changes what it has.
package zookeepertest

import "testing"

// ZooKeeper is a server that keeps what it has when it is restarted, with a client.
type ZooKeeper struct {
	*Server
	*Client
}

// Start runs a ZooKeeper that ends with the test. It skips the test where ZOOKEEPER names no folder
// of jars.
func Start(t testing.TB, more Config) *ZooKeeper {
	t.Helper()
	z := &ZooKeeper{Server: newServer(t), Client: &Client{t: t}}
	z.configure(more)
	t.Cleanup(z.end)
	z.again()
	return z
}

// end ends the server before it waits for clients.
func (z *ZooKeeper) end() {
	z.close()
	z.Kill()
	z.wait()
	z.showLog()
}

// Restart kills the server and starts it again with what it had.
func (z *ZooKeeper) Restart() {
	z.Kill()
	z.again()
}

// Wipe kills the server and starts it again without anything.
func (z *ZooKeeper) Wipe() {
	z.Kill()
	z.wipe()
	z.again()
}

func (z *ZooKeeper) again() {
	z.run()
	z.serves(z.Server.t)
	z.connect(z.Address)
	z.Ready()
}
