// Package embedded runs a private Postgres server as a child of this process, for the demo and for
// tests.
//
// It uses the machine's own binaries where there are any and downloads a build otherwise. Postgres
// refuses to run as root, so a process of root's starts it under an unprivileged account. On Linux
// the server ends with its parent, however the parent dies. Production runs its own Postgres;
// nothing here is meant for it.
package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/kit/process"
)

// User is the superuser of the embedded server, and also the name of its first database.
const User = "postgres"

// Options describe the server to start. The zero value is a throwaway server on a free port.
type Options struct {
	// DataDir keeps the data between starts. Empty means a private directory that Stop removes.
	// Where the server's account cannot reach it, a directory below /var/tmp that is derived from
	// the name serves instead.
	DataDir string

	// Port on 127.0.0.1; 0 takes any free one.
	Port int

	// BinDir holds initdb and postgres. Empty searches the machine and then downloads; the word
	// "download" skips the search.
	BinDir string

	// Fast risks committed data if the machine crashes, though not if the server does: for tests.
	Fast bool

	// Settings are further server settings, as in postgresql.conf.
	Settings map[string]string

	// Log reports what takes long, such as a download. Nil discards it.
	Log *slog.Logger
}

// Server is a running server.
type Server struct {
	account  account
	layout   layout
	process  *process.Process
	port     int
	password string
	remove   bool
}

// Start returns when the server accepts connections. Ending ctx cancels the start and has no effect
// afterwards.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	who, err := serverAccount()
	if err != nil {
		return nil, err
	}
	bin, err := binaries(ctx, o.BinDir, who, o.Log)
	if err != nil {
		return nil, err
	}
	where, err := prepare(o.DataDir, who, o.Log)
	if err != nil {
		return nil, err
	}
	s := &Server{account: who, layout: where, remove: o.DataDir == ""}
	if err := s.launch(ctx, bin, o); err != nil {
		s.clear()
		return nil, err
	}
	return s, nil
}

func (s *Server) launch(ctx context.Context, bin string, o Options) (err error) {
	if s.port, err = choosePort(o.Port); err != nil {
		return err
	}
	if s.password, err = initialise(ctx, bin, s.layout, s.account, o); err != nil {
		return err
	}
	if err := s.layout.awaitPredecessor(ctx); err != nil {
		return err
	}
	return s.run(ctx, bin, o)
}

// run starts the server, and retries while sessions of a killed server still hold its shared
// memory.
func (s *Server) run(ctx context.Context, bin string, o Options) (err error) {
	for deadline := time.Now().Add(predecessorTimeout); ; {
		if s.process, err = spawn(bin, s.arguments(o), s.account, s.layout.log(), o.Fast); err != nil {
			return err
		}
		err = s.ready(ctx)
		if err == nil {
			return nil
		}
		end(s.process)
		if !strings.Contains(err.Error(), "shared memory block") || time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("starting Postgres in %s: %w", s.layout.base, err)
		}
	}
}

// URL connects to the server's first database as its superuser.
func (s *Server) URL() string { return s.Database(User) }

// Database is URL for another database of the server.
func (s *Server) Database(name string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(User, s.password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)), Path: "/" + name,
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Port is the server's port on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// PID is the process id of the server, for those who want to kill it.
func (s *Server) PID() int { return s.process.Pid() }

// DataDir is where the data lies, which is not always where it was asked to lie.
func (s *Server) DataDir() string { return s.layout.base }

// SocketDir holds the server's Unix socket. Only its account and root can enter it, and need no
// password there.
func (s *Server) SocketDir() string { return s.layout.socket }

// Done is closed when the server has ended, whoever ended it.
func (s *Server) Done() <-chan struct{} { return s.process.Done() }

// Stop ends open sessions and the server, and waits until it is gone. Calling it again does
// nothing.
func (s *Server) Stop() {
	end(s.process)
	s.clear()
}

func (s *Server) clear() {
	_ = os.RemoveAll(s.layout.socket)
	if s.remove {
		_ = os.RemoveAll(s.layout.base)
	}
}

func (s *Server) arguments(o Options) []string {
	settings := map[string]string{
		"listen_addresses":        "127.0.0.1",
		"port":                    strconv.Itoa(s.port),
		"unix_socket_directories": s.layout.socket,
		"logging_collector":       "off",
		"max_connections":         "200",
	}
	if o.Fast {
		settings["fsync"], settings["full_page_writes"] = "off", "off"
	}
	maps.Copy(settings, o.Settings)
	args := []string{"-D", s.layout.data()}
	for name, value := range settings {
		args = append(args, "-c", name+"="+value)
	}
	return args
}

// PortInUseError says that something else listens on the wanted port.
type PortInUseError struct{ Port int }

func (e *PortInUseError) Error() string {
	return fmt.Sprintf("port %d on 127.0.0.1 is in use: stop what listens there, or choose another port for Postgres", e.Port)
}

// choosePort returns the wanted port if it is free, or any free port for 0.
func choosePort(wanted int) (int, error) {
	if wanted == 0 {
		return freeport.New()
	}
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(wanted)))
	if err != nil {
		return 0, &PortInUseError{wanted}
	}
	return wanted, l.Close()
}

func executable(path string) bool {
	info, err := os.Stat(path) //nolint:gosec // the operator says where Postgres is
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func complete(dir string) bool {
	return executable(filepath.Join(dir, "initdb")) && executable(filepath.Join(dir, "postgres"))
}
