package pgtest

import (
	"maps"
	"os"
	"syscall"
	"testing"

	"github.com/pgmesh/pgmesh/internal/process"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/embedded"
)

// OwnServer is a server for one test, which may stop, kill and start it again. It keeps its URL and its data.
type OwnServer struct {
	t        testing.TB
	dir      string
	running  *embedded.Server
	settings map[string]string
	URL      string
}

// Server starts a server of the test's own, with its first database migrated.
func Server(t testing.TB) *OwnServer {
	t.Helper()
	return ServerWith(t, nil)
}

// ServerWith is Server with further settings, as in postgresql.conf.
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
	if err := store.Migrate(t.Context(), s.URL); err != nil {
		t.Fatalf("migrating the database of the test's own server: %v", err)
	}
	return s
}

// killable keeps Postgres 13 from starting workers that outlive a server that is killed, and keep it from being started again.
var killable = map[string]string{"autovacuum": "off"}

func (s *OwnServer) start(port int) {
	s.t.Helper()
	running, err := embedded.Start(s.t.Context(), embedded.Options{DataDir: s.dir, Port: port, Fast: true, Settings: s.settings})
	if err != nil {
		s.t.Fatalf("starting the test's own server: %v", err)
	}
	s.running, s.URL = running, running.URL()
}

// Start starts the server again, on the port it had.
func (s *OwnServer) Start() {
	s.t.Helper()
	s.start(s.running.Port())
}

// Stop ends the server in good order.
func (s *OwnServer) Stop() {
	if s.running != nil {
		s.running.Stop()
	}
}

// Kill ends the server as a crash of its machine does: with all sessions at once. One that heard of the end by itself,
// as they do where these are not to be known, might commit first.
func (s *OwnServer) Kill() {
	s.t.Helper()
	first := s.running.PID()
	if err := syscall.Kill(first, syscall.SIGSTOP); err != nil { // it starts no other meanwhile
		s.t.Fatalf("killing the test's own server: %v", err)
	}
	for _, pid := range append(process.Children(first), first) {
		_ = syscall.Kill(pid, syscall.SIGKILL) // some may have ended by themselves
	}
	<-s.running.Done()
}
