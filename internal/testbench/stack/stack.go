// Package stack runs the whole pipeline from built programs on this machine, for end-to-end tests
// and benchmarks. Each stage is its own process, which can be killed and restarted.
package stack

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
)

// Build compiles programs, named by their folders, into a folder. It must run inside the module.
func Build(ctx context.Context, into string, programs ...string) error {
	return BuildFrom(ctx, "", into, programs...)
}

// BuildFrom does so for whoever runs elsewhere: folder is one inside the module.
func BuildFrom(ctx context.Context, folder, into string, programs ...string) error {
	args := []string{"build", "-o", into + string(filepath.Separator)}
	for _, p := range programs {
		args = append(args, "github.com/pgmesh/pgmesh/"+p)
	}
	build := exec.CommandContext(ctx, "go", args...)
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return nil
}

// Stack is the control plane: mcp-server and discovery on free loopback ports. There is no
// mcp-server if discovery serves a directory.
type Stack struct {
	bin string
	dir string

	MCPServer *Program
	Discovery *Program
	// MCP and XDS are the addresses of the two servers.
	MCP, XDS string

	secure *secureSetup // nil for plaintext
}

// New prepares a control plane on a database without starting it. Logs go to dir.
func New(bin, dir, database string) (*Stack, error) {
	ports, err := freeAddresses(4)
	if err != nil {
		return nil, err
	}
	s := &Stack{bin: bin, dir: dir, MCP: ports[0], XDS: ports[2]}
	s.MCPServer = s.program("mcp-server", ports[1],
		"run", "--insecure", "--migrate", "--database", database, "--listen", ports[0], "--http", ports[1], "--api", "",
		"--state-dir", filepath.Join(dir, "mcp-server-"+portOf(ports[0])))
	s.Discovery = s.program("discovery", ports[3],
		"run", "--insecure", "--mcp", ports[0], "--listen", ports[2], "--http", ports[3])
	return s, nil
}

// NewBridge prepares a mesh whose services are those of registries, without starting anything.
func NewBridge(bin, dir string, registries ...string) (*Stack, error) {
	ports, err := freeAddresses(4)
	if err != nil {
		return nil, err
	}
	s := &Stack{bin: bin, dir: dir, MCP: ports[0], XDS: ports[2]}
	s.MCPServer = s.program("mcp-server", ports[1], "run", "--insecure", "--listen", ports[0], "--http", ports[1], "--api", "", "--state-dir", "")
	s.Discovery = s.program("discovery", ports[3], "run", "--insecure", "--mcp", ports[0], "--listen", ports[2], "--http", ports[3])
	for _, r := range registries {
		s.MCPServer.args = append(s.MCPServer.args, "--registry", r)
	}
	return s, nil
}

// NewFromDirectory prepares a discovery that serves the files of a directory, without starting it.
func NewFromDirectory(bin, dir, files string) (*Stack, error) {
	ports, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	s := &Stack{bin: bin, dir: dir, XDS: ports[0]}
	s.Discovery = s.program("discovery", ports[1], "run", "--insecure", "--config-dir", files, "--listen", ports[0], "--http", ports[1])
	return s, nil
}

// ServeOn makes discovery serve Envoys on another address than loopback. Call it before Start.
func (s *Stack) ServeOn(ip string) {
	s.XDS = net.JoinHostPort(ip, portOf(s.XDS))
	s.Discovery.args = append(s.Discovery.args, "--insecure-any-address", "--listen", s.XDS)
}

// DiscoveryFlags adds flags for discovery. Call it before Start.
func (s *Stack) DiscoveryFlags(flags ...string) {
	s.Discovery.args = append(s.Discovery.args, flags...)
}

// ServerFlags adds flags for mcp-server. Call it before Start.
func (s *Stack) ServerFlags(flags ...string) {
	s.MCPServer.args = append(s.MCPServer.args, flags...)
}

// Start starts the programs and returns when they are ready.
func (s *Stack) Start(ctx context.Context) error {
	programs := s.programs()
	if s.secure != nil {
		if err := s.startServer(ctx); err != nil {
			return err
		}
		programs = programs[1:]
	}
	for _, p := range programs {
		if err := p.Start(); err != nil {
			return err
		}
	}
	for _, p := range programs {
		if err := p.Ready(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Stop shuts the programs down.
func (s *Stack) Stop() {
	for _, p := range slices.Backward(s.programs()) {
		p.Stop()
	}
}

func (s *Stack) programs() []*Program {
	if s.MCPServer == nil {
		return []*Program{s.Discovery}
	}
	return []*Program{s.MCPServer, s.Discovery}
}

// Agent prepares a mesh-agent with this name that runs an Envoy without traffic redirection.
func (s *Stack) Agent(envoy, name string, flags ...string) (*Program, error) {
	ports, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	args := append([]string{
		"run", "--insecure", "--tie-envoy", "--envoy", envoy, "--discovery", s.XDS, "--id", name, "--node-ip", "127.0.0.1",
		"--interception-mode", "NONE", "--admin", ports[1], "--status", ports[0],
	}, flags...)
	p := s.program("mesh-agent", ports[0], args...)
	p.readyPath, p.Admin = "/healthz/ready", ports[1]
	return p, nil
}

// Client runs mcp-client and returns what it printed.
func (s *Stack) Client(ctx context.Context, stdin string, args ...string) (string, error) {
	return s.run(ctx, stdin, "mcp-client", slices.Concat(s.connection(), args)...)
}

// ClientOutput runs mcp-client and returns what it prints, without what it says beside.
func (s *Stack) ClientOutput(ctx context.Context, args ...string) ([]byte, error) {
	return s.print(ctx, "mcp-client", slices.Concat(s.connection(), args)...)
}

// Run runs another of the programs and returns what it printed.
func (s *Stack) Run(ctx context.Context, program string, args ...string) (string, error) {
	return s.run(ctx, "", program, args...)
}

func (s *Stack) run(ctx context.Context, stdin, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *Stack) program(name, http string, args ...string) *Program {
	return &Program{
		path: filepath.Join(s.bin, name), args: args, http: http, readyPath: "/readyz",
		logFile: filepath.Join(s.dir, fmt.Sprintf("%s-%s.log", name, portOf(http))),
	}
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// freeAddresses returns addresses for programs to listen on.
func freeAddresses(n int) (addresses []string, err error) {
	addresses = make([]string, n)
	for i := range addresses {
		if addresses[i], err = freeport.Address(); err != nil {
			return nil, err
		}
	}
	return addresses, nil
}
