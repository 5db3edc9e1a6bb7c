package pgtest

import (
	"maps"
	"os"
	"syscall"
	"testing"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/store/embedded"
	"github.com/pgmesh/pgmesh/store/migration"
)

// OwnServer is a server for one test, which may stop, kill and restart it. It keeps its URL and its
// data.
type OwnServer struct {
	t        testing.TB
	dir      string
	running  *embedded.Server
	settings map[string]string
	URL      string
}

// Server starts an OwnServer with a migrated first database.
func Server(t testing.TB) *OwnServer {
	t.Helper()
	return ServerWith(t, nil)
}

// ServerWith is Server with more settings, as in postgresql.conf.
func ServerWith(t testing.TB, settings map[string]string) *OwnServer {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "pgmesh-test-")
	if err != nil {
		t.Fatal(err)
	}
	s := &OwnServer{t: t, dir: dir, settings: maps.Clone(killable)}
	maps.Copy(s.settings, settings)
	t.Cleanup(func() {
		s.Stop()
		os.RemoveAll(dir)
	})
	s.start(0)
	if err := migration.Up(t.Context(), s.URL); err != nil {
		t.Fatalf("migrating the database of the test's own server: %v", err)
	}
	return s
}

// killable disables autovacuum: in Postgres 13 its workers can outlive a killed server and then
// block a restart.
var killable = map[string]string{"autovacuum": "off"}

func (s *OwnServer) start(port int) {
	s.t.Helper()
	running, err := embedded.Start(s.t.Context(), embedded.Options{DataDir: s.dir, Port: port, Fast: true, Settings: s.settings})
	if err != nil {
		s.t.Fatalf("starting the test's own server: %v", err)
	}
	s.running, s.URL = running, running.URL()
}

// Start restarts the server on the same port.
func (s *OwnServer) Start() {
	s.t.Helper()
	s.start(s.running.Port())
}

// Stop shuts the server down cleanly.
func (s *OwnServer) Stop() {
	if s.running != nil {
		s.running.Stop()
	}
}

// Kill ends the server like a crash of its machine: it kills all sessions at once. It needs
// process.Children for that; elsewhere than on Linux, a session might notice the server's end first
// and still commit.
func (s *OwnServer) Kill() {
	s.t.Helper()
	first := s.running.PID()
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil { // so that it starts no new session meanwhile
		s.t.Fatalf("killing the test's own server: %v", err)
	}
	for _, pid := range append(process.Children(first), first) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended already
	}
	<-s.running.Done()
}
