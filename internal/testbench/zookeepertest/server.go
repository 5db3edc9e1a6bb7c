package zookeepertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// Server is one server, which keeps what it has when it is restarted.
type Server struct {
	// Address is host:port where clients connect.
	Address string

	t       testing.TB
	folder  string
	process *process.Process
	log     bytes.Buffer
}

// Config is added to the configuration of a server.
type Config map[string]string

// newServer prepares a server. It skips the test where ZOOKEEPER names no folder of jars.
func newServer(t testing.TB) *Server {
	t.Helper()
	if os.Getenv("ZOOKEEPER") == "" {
		t.Skip("there is no ZooKeeper: make registries fetches one")
	}
	return &Server{Address: "127.0.0.1:" + strconv.Itoa(port(t)), t: t, folder: t.TempDir()}
}

func port(t testing.TB) int {
	t.Helper()
	p, err := freeport.New()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *Server) configure(more Config) {
	s.t.Helper()
	_, port, _ := net.SplitHostPort(s.Address)
	config := Config{
		"tickTime": "500", "dataDir": s.data(), "clientPort": port, "clientPortAddress": "127.0.0.1",
		"admin.enableServer": "false", "maxClientCnxns": "0", "4lw.commands.whitelist": "mntr",
	}
	maps.Copy(config, more)
	var text bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(config)) {
		fmt.Fprintf(&text, "%s=%s\n", key, config[key])
	}
	if err := os.WriteFile(s.configuration(), text.Bytes(), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) configuration() string { return filepath.Join(s.folder, "zoo.cfg") }

func (s *Server) data() string { return filepath.Join(s.folder, "data") }

func (s *Server) run() {
	s.t.Helper()
	cmd := exec.Command("java", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-cp", filepath.Join(os.Getenv("ZOOKEEPER"), "*"), "org.apache.zookeeper.server.quorum.QuorumPeerMain", s.configuration())
	cmd.Stdout, cmd.Stderr = &s.log, &s.log
	var err error
	if s.process, err = process.Start(cmd); err != nil {
		s.t.Fatal(err)
	}
}

// startsWithin is how long a server may take to start on a machine that is busy.
const startsWithin = 2 * time.Minute

// serves waits until the server does. A client that comes earlier may be forgotten.
func (s *Server) serves(t testing.TB) {
	t.Helper()
	poll.Within(t, startsWithin, func(context.Context) error {
		_, err := s.says("zk_server_state")
		return err
	})
}

// Kill ends the server, as a crash does.
func (s *Server) Kill() {
	if s.process != nil {
		s.process.Kill()
	}
}

// Run starts the server again after Kill.
func (s *Server) Run() { s.run() }

// wipe has the server lose all that it has.
func (s *Server) wipe() {
	s.t.Helper()
	if err := os.RemoveAll(s.data()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) showLog() {
	if s.t.Failed() {
		s.t.Logf("the log of ZooKeeper at %s:\n%s", s.Address, &s.log)
	}
}

// Sessions counts the sessions that the server keeps, that of the test among them.
func (s *Server) Sessions() int {
	s.t.Helper()
	n, err := s.sessions()
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// AwaitSessions waits until the server keeps so many sessions.
func (s *Server) AwaitSessions(many int) {
	s.t.Helper()
	poll.Eventually(s.t, func(context.Context) error {
		n, err := s.sessions()
		if err == nil && n != many {
			err = fmt.Errorf("there are %d sessions, and not %d", n, many)
		}
		return err
	})
}

func (s *Server) sessions() (int, error) {
	text, err := s.says("zk_global_sessions")
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// says asks the server for one of its figures.
func (s *Server) says(figure string) (string, error) {
	conn, err := net.DialTimeout("tcp", s.Address, time.Second)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, "mntr"); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		return "", err
	}
	found := regexp.MustCompile(`(?m)^` + figure + `\s+(\S+)`).FindSubmatch(text)
	if found == nil {
		return "", errors.New("ZooKeeper does not say " + figure + ": " + string(text))
	}
	return string(found[1]), nil
}
