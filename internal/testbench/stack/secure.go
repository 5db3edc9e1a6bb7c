package stack

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Files are the files of an authority that is not in the database.
type Files struct{ Cert, Key, Roots string }

// secureSetup has the files of a control plane with mutual TLS.
type secureSetup struct {
	database string
	key      string // the file that secrets are sealed with
	roots    string // a file with the mesh's roots
	files    *Files // nil for an authority in the database
	admin    string // a file with the token of an administrator
	join     string // a file with the token that discovery joins with
	state    string // where the programs keep who they are
}

// NewSecure prepares, without starting it, a control plane with mutual TLS, whose authority is in
// the database or in files.
func NewSecure(bin, dir, database string, files *Files) (*Stack, error) {
	ports, err := freeAddresses(4)
	if err != nil {
		return nil, err
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	s := &Stack{bin: bin, dir: dir, MCP: ports[0], XDS: ports[2], secure: &secureSetup{
		database: database, key: in("seal.key"), roots: in("roots.pem"), admin: in("admin.token"), join: in("discovery.token"), state: in("state"), files: files,
	}}
	s.MCPServer = s.program("mcp-server", ports[1],
		"run", "--migrate", "--database", database, "--listen", ports[0], "--http", ports[1], "--api", "",
		"--secrets-key-file", s.secure.key, "--state-dir", s.State("mcp-server"))
	if files != nil {
		s.secure.roots = files.Roots
		s.MCPServer.args = append(s.MCPServer.args, "--authority-cert", files.Cert, "--authority-key", files.Key, "--authority-roots", files.Roots)
	}
	s.Discovery = s.program("discovery", ports[3],
		"run", "--mcp", ports[0], "--listen", ports[2], "--http", ports[3], "--name", "first",
		"--join-token-file", s.secure.join, "--state-dir", s.State("discovery"))
	return s, s.keep(context.Background(), s.secure.key, "secrets", "key")
}

// print runs a program and returns its standard output.
func (s *Stack) print(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, complaint.String())
	}
	return text, nil
}

// keep writes the output of an mcp-server command to a file.
func (s *Stack) keep(ctx context.Context, file string, args ...string) error {
	text, err := s.print(ctx, "mcp-server", args...)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

// startServer starts mcp-server and creates the tokens for the other programs.
func (s *Stack) startServer(ctx context.Context) error {
	if err := s.MCPServer.Start(); err != nil {
		return err
	}
	if err := s.MCPServer.Ready(ctx); err != nil {
		return err
	}
	x := s.secure
	flags := []string{"--database", x.database, "--secrets-key-file", x.key}
	if x.files != nil {
		flags = append(flags, "--authority-roots", x.files.Roots)
	} else if err := s.KeepRoots(ctx); err != nil {
		return err
	}
	if err := s.keep(ctx, x.admin, "token", "create", "admin", "--scope", "admin", "--database", x.database); err != nil {
		return err
	}
	return s.keep(ctx, x.join, append([]string{"token", "create", "discovery", "--for", "discovery"}, flags...)...)
}

// Replica prepares another discovery of a running control plane and returns its xDS address.
func (s *Stack) Replica(ctx context.Context, name string, flags ...string) (p *Program, xds string, err error) {
	ports, err := freeAddresses(2)
	if err != nil {
		return nil, "", err
	}
	args := []string{"run", "--mcp", s.MCP, "--listen", ports[0], "--http", ports[1], "--name", name}
	if s.secure == nil {
		return s.program("discovery", ports[1], slices.Concat(args, []string{"--insecure"}, flags)...), ports[0], nil
	}
	token := filepath.Join(s.dir, name+".token")
	if err := s.keep(ctx, token, "token", "create", name, "--for", "discovery", "--database", s.secure.database, "--secrets-key-file", s.secure.key); err != nil {
		return nil, "", err
	}
	return s.program("discovery", ports[1], slices.Concat(args, []string{"--join-token-file", token, "--state-dir", s.State(name)}, flags)...), ports[0], nil
}

// AnotherServer prepares another mcp-server on the same database and returns its address.
func (s *Stack) AnotherServer(name string) (p *Program, mcp string, err error) {
	ports, err := freeAddresses(2)
	if err != nil {
		return nil, "", err
	}
	args := slices.Concat(s.MCPServer.args, []string{"--listen", ports[0], "--http", ports[1], "--state-dir", filepath.Join(s.dir, name), "--name", name})
	return s.program("mcp-server", ports[1], args...), ports[0], nil
}

// ServerWithoutRegistries prepares another mcp-server on the same database that reads no registry, and
// returns its address.
func (s *Stack) ServerWithoutRegistries(name string, flags ...string) (p *Program, mcp string, err error) {
	if p, mcp, err = s.AnotherServer(name); err != nil {
		return nil, "", err
	}
	for i := slices.Index(p.args, "--registry"); i >= 0; i = slices.Index(p.args, "--registry") {
		p.args = slices.Delete(p.args, i, i+2)
	}
	p.args = append(p.args, flags...)
	return p, mcp, nil
}

// KeepRoots writes the roots that the mesh trusts now to a file, with which mcp-client verifies
// mcp-server.
func (s *Stack) KeepRoots(ctx context.Context) error {
	return s.keep(ctx, s.secure.roots, "authority", "roots", "--database", s.secure.database, "--secrets-key-file", s.secure.key)
}

// Roots returns the file that KeepRoots last wrote.
func (s *Stack) Roots() string { return s.secure.roots }

// JoinToken creates a join token for a machine with this identity, namespace/service-account. args
// are further arguments of mcp-client token create.
func (s *Stack) JoinToken(ctx context.Context, identity string, args ...string) (string, error) {
	return s.token(ctx, append([]string{"--identity", identity}, args...)...)
}

// GroupToken creates a join token for a machine of a WorkloadGroup, namespace/name.
func (s *Stack) GroupToken(ctx context.Context, group string) (string, error) {
	return s.token(ctx, "--group", group)
}

// BearerToken creates a bearer token for mcp-server. args are further arguments of mcp-client token
// create.
func (s *Stack) BearerToken(ctx context.Context, name string, args ...string) (string, error) {
	return s.token(ctx, append([]string{name}, args...)...)
}

func (s *Stack) token(ctx context.Context, args ...string) (string, error) {
	text, err := s.print(ctx, "mcp-client", slices.Concat(s.connection(), []string{"token", "create"}, args)...)
	return strings.TrimSpace(string(text)), err
}

// Member prepares a mesh-agent that joins with a token and runs an Envoy without traffic
// redirection.
func (s *Stack) Member(envoy, name, token string, flags ...string) (*Program, error) {
	ports, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.dir, name+".token")
	if err := os.WriteFile(file, []byte(token), 0o600); err != nil {
		return nil, err
	}
	p := s.program("mesh-agent", ports[0], append([]string{
		"run", "--tie-envoy", "--envoy", envoy, "--discovery", s.XDS, "--id", name, "--node-ip", "127.0.0.1", "--interception-mode", "NONE",
		"--admin", ports[1], "--status", ports[0], "--token-file", file, "--state-dir", s.State(name),
	}, flags...)...)
	p.readyPath, p.Admin = "/healthz/ready", ports[1]
	return p, nil
}

// State returns the state folder of a member.
func (s *Stack) State(name string) string { return filepath.Join(s.secure.state, name) }

// connection returns the flags with which mcp-client connects to mcp-server.
func (s *Stack) connection() []string {
	if s.secure == nil {
		return []string{"--server", s.MCP, "--insecure"}
	}
	return []string{"--server", s.MCP, "--tls-ca", s.secure.roots, "--token-file", s.secure.admin, "--discovery", "http://" + s.Discovery.HTTP()}
}

// Administrator returns the variables with which mcp-client is that of an administrator of a secure
// control plane.
func (s *Stack) Administrator() (variables []string) {
	for flags := s.connection(); len(flags) > 1; flags = flags[2:] {
		name := strings.ReplaceAll(strings.TrimPrefix(flags[0], "--"), "-", "_")
		variables = append(variables, "PGMESH_"+strings.ToUpper(name)+"="+flags[1])
	}
	return variables
}

// SecretFiles maps descriptions to files whose content must not be shown anywhere.
func (s *Stack) SecretFiles() map[string]string {
	return map[string]string{
		"the key that secrets are sealed with": s.secure.key, "an administrator's token": s.secure.admin, "the token that discovery joined with": s.secure.join,
	}
}

// MoveTo has mcp-server use another database from its next start on.
func (s *Stack) MoveTo(database string) {
	s.MCPServer.args[slices.Index(s.MCPServer.args, "--database")+1] = database
	s.secure.database = database
}

// Key returns the file that secrets are sealed with.
func (s *Stack) Key() string { return s.secure.key }
