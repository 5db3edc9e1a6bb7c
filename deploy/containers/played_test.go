package containers_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// played runs compose.yaml on this machine: with processes for containers, folders for volumes, and
// ports on loopback for names.
type played struct {
	*file

	t       *testing.T
	folder  string
	renamed []string
	// asked has the address at which to ask each server whether it is ready.
	asked map[string]string
}

func play(t *testing.T) *played {
	t.Helper()
	build(t)
	p := &played{file: composed(t), t: t, folder: t.TempDir(), asked: map[string]string{}}
	for volume := range p.Volumes {
		require.NoError(t, os.Mkdir(filepath.Join(p.folder, volume), 0o755))
	}
	mcp, xds := free(t), free(t)
	p.asked["mcp-server"], p.asked["discovery"] = free(t), free(t)
	p.renamed = []string{
		"postgres://pgmesh:${POSTGRES_PASSWORD:-pgmesh}@postgres:5432/pgmesh", pgtest.Empty(t),
		"--listen=:15020", "--listen=" + mcp,
		"mcp-server:15020", mcp,
		"--host=mcp-server", "--host=127.0.0.1",
		"discovery:15012", xds,
		"--host=discovery", "--host=127.0.0.1",
		"/mesh.yaml", filepath.Join(compose, "mesh.yaml"),
	}
	return p.also("discovery", "--listen="+xds)
}

// also adds flags to a discovery, turns off the HTTP API, and gives each server a free port for its
// health: containers have all ports to themselves.
func (p *played) also(discovery string, words ...string) *played {
	p.Services[discovery].Command = append(p.Services[discovery].Command, words...)
	p.Services["mcp-server"].Command = append(p.Services["mcp-server"].Command, "--api=")
	for name, address := range p.asked {
		p.Services[name].Command = append(p.Services[name].Command, "--http="+address)
	}
	return p
}

func free(t *testing.T) string {
	t.Helper()
	address, err := freeport.Address()
	require.NoError(t, err)
	return address
}

// here replaces in a text of a service the volumes by folders, and the names of other services by
// addresses.
func (p *played) here(s *service, text string) string {
	var pairs []string
	for _, volume := range s.Volumes {
		from, rest, _ := strings.Cut(volume, ":")
		if !strings.HasPrefix(from, ".") {
			pairs = append(pairs, strings.TrimSuffix(rest, ":ro"), filepath.Join(p.folder, from))
		}
	}
	text = strings.NewReplacer(append(pairs, p.renamed...)...).Replace(text)
	// A script must change to the folder that has the service's volumes.
	return strings.NewReplacer("cd /run/pgmesh\n", "cd "+p.volumesAs(s)+"\n").Replace(text)
}

// volumesAs returns a folder in which a service's volumes have the names of their mount points.
func (p *played) volumesAs(s *service) string {
	into := p.t.TempDir()
	for _, volume := range s.Volumes {
		from, rest, _ := strings.Cut(volume, ":")
		require.NoError(p.t, os.Symlink(filepath.Join(p.folder, from), filepath.Join(into, filepath.Base(strings.TrimSuffix(rest, ":ro")))))
	}
	return into
}

func (p *played) command(name string, extra ...string) *exec.Cmd {
	s := p.Services[name]
	var words []string
	for _, word := range append(slices.Clone(s.Command), extra...) {
		words = append(words, p.here(s, word))
	}
	var cmd *exec.Cmd
	if s.target() == "setup" {
		cmd = exec.CommandContext(p.t.Context(), "sh", append([]string{"-euc"}, words...)...)
	} else {
		cmd = exec.CommandContext(p.t.Context(), program(s.target()), words...)
	}
	if name == "mcp-server" {
		cmd.Args = append(cmd.Args, "--state-dir="+filepath.Join(p.folder, "mcp-server")) // its default is the path of the volume
	}
	cmd.Env = []string{"PATH=" + out + ":" + os.Getenv("PATH"), "HOME=/"}
	for variable, value := range s.Environment {
		cmd.Env = append(cmd.Env, variable+"="+p.here(s, value))
	}
	return cmd
}

func (p *played) once(name string) {
	p.t.Helper()
	said, err := p.command(name).CombinedOutput()
	require.NoError(p.t, err, "%s: %s", name, said)
}

// serve starts a server, and waits until its health check succeeds.
func (p *played) serve(name string) {
	p.t.Helper()
	cmd := p.command(name)
	said := process.NewTail(50)
	cmd.Stdout, cmd.Stderr = said, said
	running, err := process.Start(cmd)
	require.NoError(p.t, err)
	p.t.Cleanup(func() { running.Stop(10 * time.Second) })
	require.Eventually(p.t, func() bool {
		select {
		case <-running.Done():
			p.t.Fatalf("%s has ended (%s): %s", name, running.ExitStatus(), said)
		default:
		}
		return exec.CommandContext(p.t.Context(), program("ready"), "http://"+p.asked[name]+"/readyz").Run() == nil
	}, time.Minute, 50*time.Millisecond, "%s: %s", name, said)
}

// joins lets a machine join like its agent, with the token in its volume.
func (p *played) joins(name string) {
	p.t.Helper()
	var flags []string
	for _, word := range p.Services[name].Command {
		if value, ok := strings.CutPrefix(word, "--discovery="); ok {
			flags = append(flags, "--server="+value)
		}
		if strings.HasPrefix(word, "--token-file=") {
			flags = append(flags, word)
		}
	}
	require.Len(p.t, flags, 2)
	p.Services[name].Command = append([]string{"join"}, flags...)
	said, err := p.command(name, "--state-dir=/var/lib/mesh-agent").CombinedOutput()
	require.NoError(p.t, err, "%s: %s", name, said)
}

func TestComposeMembersJoin(t *testing.T) {
	p := play(t)
	started := map[string]bool{}
	for _, name := range inOrder(t, p.file) {
		s := p.Services[name]
		switch {
		case s.Build == nil:
			continue
		case p.asked[name] != "":
			p.serve(name)
		case s.target() == "mesh-agent":
			p.joins(name)
		default:
			p.once(name)
		}
		started[name] = true
	}
	require.Len(t, started, 8, "%v", slices.Sorted(maps.Keys(started)))
	require.Contains(t, p.asAdministrator("identity", "list"), "spiffe://cluster.local/ns/payments/sa/api")
	require.Contains(t, p.asAdministrator("identity", "list"), "spiffe://cluster.local/ns/shop/sa/web")

	key, err := os.ReadFile(filepath.Join(p.folder, "key/secrets.key"))
	require.NoError(t, err)
	for _, name := range []string{"key", "admin", "mesh", "join"} { // as on every later start
		p.once(name)
	}
	same, err := os.ReadFile(filepath.Join(p.folder, "key/secrets.key"))
	require.NoError(t, err)
	require.Equal(t, string(key), string(same), "the key was made anew, and what it had encrypted is lost")
	p.secretsAreForNobodyElse()
}

func (p *played) asAdministrator(words ...string) string {
	p.t.Helper()
	p.Services["mesh"].Command = words
	said, err := p.command("mesh").CombinedOutput()
	require.NoError(p.t, err, "%s", said)
	return string(said)
}

func (p *played) secretsAreForNobodyElse() {
	p.t.Helper()
	for _, path := range []string{"key/secrets.key", "admin/admin.token", "discovery-token/token", "api-token/token", "web-token/token"} {
		info, err := os.Stat(filepath.Join(p.folder, path))
		require.NoError(p.t, err)
		require.Equal(p.t, "-rw-------", fmt.Sprint(info.Mode()), path)
	}
}
