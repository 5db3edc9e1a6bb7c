// Package zookeepertest gives a test a real ZooKeeper, with one server, and changes what it has.
package zookeepertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// ZooKeeper is a server that keeps what it has when it is restarted.
type ZooKeeper struct {
	// Address is host:port where clients connect.
	Address string
	// Conn is the test's own connection, of another client than the one that is tested.
	Conn *zk.Conn

	t       testing.TB
	folder  string
	process *process.Process
	told    []<-chan zk.Event // are closed when the goroutines of the test's clients have ended
	log     bytes.Buffer
}

// Config is added to the configuration of the server.
type Config map[string]string

// Start runs a ZooKeeper that ends with the test. It skips the test where ZOOKEEPER names no folder
// of jars.
func Start(t testing.TB, more Config) *ZooKeeper {
	t.Helper()
	if os.Getenv("ZOOKEEPER") == "" {
		t.Skip("there is no ZooKeeper: make registries fetches one")
	}
	port, err := freeport.New()
	if err != nil {
		t.Fatal(err)
	}
	z := &ZooKeeper{Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), t: t, folder: t.TempDir()}
	z.configure(port, more)
	t.Cleanup(z.end)
	z.run()
	z.connect()
	z.Ready()
	return z
}

// connect gives the test a client that has seen nothing: one that has seen more than a server that was
// wiped knows is refused by it.
func (z *ZooKeeper) connect() {
	z.t.Helper()
	conn, told, err := zk.Connect([]string{z.Address}, 20*time.Second, zk.WithLogger(silent{}), zk.WithLogInfo(false))
	if err != nil {
		z.t.Fatal(err)
	}
	z.Conn = conn
	z.told = append(z.told, told)
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func (z *ZooKeeper) configure(port int, more Config) {
	z.t.Helper()
	config := Config{
		"tickTime": "500", "dataDir": filepath.Join(z.folder, "data"), "clientPort": strconv.Itoa(port), "clientPortAddress": "127.0.0.1",
		"admin.enableServer": "false", "maxClientCnxns": "0", "4lw.commands.whitelist": "mntr",
	}
	maps.Copy(config, more)
	var text bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintf(&text, "%s=%s\n", key, config[key])
	}
	if err := os.WriteFile(z.configuration(), text.Bytes(), 0o600); err != nil {
		z.t.Fatal(err)
	}
}

func (z *ZooKeeper) configuration() string { return filepath.Join(z.folder, "zoo.cfg") }

func (z *ZooKeeper) run() {
	z.t.Helper()
	cmd := exec.Command("java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-cp", filepath.Join(os.Getenv("ZOOKEEPER"), "*"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", z.configuration())
	cmd.Stdout, cmd.Stderr = &z.log, &z.log
	var err error
	if z.process, err = process.Start(cmd); err != nil {
		z.t.Fatal(err)
	}
}

// Ready waits until the server answers.
func (z *ZooKeeper) Ready() {
	z.t.Helper()
	z.do("exists /", func() error {
		_, _, err := z.Conn.Exists("/")
		return err
	})
}

// end ends the server before it waits for clients: they may wait minutes for its answer.
func (z *ZooKeeper) end() {
	if z.Conn != nil {
		z.Conn.Close()
	}
	if z.process != nil {
		z.process.Kill()
	}
	for _, told := range z.told {
		for range told { // what it says does not matter
		}
	}
	if z.t.Failed() {
		z.t.Logf("ZooKeeper's log:\n%s", &z.log)
	}
}

// Kill ends the server, as a crash does.
func (z *ZooKeeper) Kill() { z.process.Kill() }

// Restart kills the server and starts it again with what it had.
func (z *ZooKeeper) Restart() {
	z.t.Helper()
	z.Kill()
	z.again()
}

func (z *ZooKeeper) again() {
	z.t.Helper()
	old := z.Conn
	go old.Close()
	z.run()
	z.connect()
	z.Ready()
}

// Wipe kills the server and starts it again without anything.
func (z *ZooKeeper) Wipe() {
	z.t.Helper()
	z.Kill()
	if err := os.RemoveAll(filepath.Join(z.folder, "data")); err != nil {
		z.t.Fatal(err)
	}
	z.again()
}

// do does something with the server, again where the connection was lost meanwhile.
func (z *ZooKeeper) do(what string, something func() error) {
	z.t.Helper()
	var refused error
	poll.Eventually(z.t, func(context.Context) error {
		refused = something()
		for _, lost := range []error{zk.ErrConnectionClosed, zk.ErrSessionExpired, zk.ErrNoServer, zk.ErrSessionMoved} {
			if errors.Is(refused, lost) {
				return refused
			}
		}
		return nil
	})
	if refused != nil {
		z.t.Fatalf("%s: %v", what, refused)
	}
}
