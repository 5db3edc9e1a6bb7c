package packages_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/deploy/packages"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/machine"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// folder has the packages of two versions.
var folder string

const before, after = "1.0.0~rc1", "1.0.0"

var programs = []string{"mcp-server", "mcp-client", "discovery", "mesh-agent"}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pgmesh-packages-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	folder = dir
	for _, version := range []string{before, after} {
		var about io.Writer
		if testing.Verbose() {
			about = os.Stdout
		}
		if err := packages.Make(context.Background(), version, filepath.Join(dir, version), about, "deb", "rpm"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return pgtest.Main(m)
}

// files returns the packages of a version by program.
func files(t *testing.T, version, ending string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, program := range programs {
		found, err := filepath.Glob(filepath.Join(folder, version, "pgmesh-"+program+"[_\\-]*."+ending))
		require.NoError(t, err)
		require.Len(t, found, 1, "%s of %s", ending, program)
		all[program] = found[0]
	}
	return all
}

// boot starts a machine that has the packages of both versions in /root.
func boot(t *testing.T) *machine.Machine {
	t.Helper()
	m := machine.Boot(t, netns.New(t), "one")
	m.Type("rm -rf /var/lib/mesh-agent /var/lib/pgmesh /var/lib/discovery") // what earlier runs left on this machine
	for _, version := range []string{before, after} {
		for _, ending := range []string{"deb", "rpm"} {
			require.NoError(t, os.MkdirAll(m.Path("/root/"+version), 0o755))
			for _, file := range files(t, version, ending) {
				content, err := os.ReadFile(file)
				require.NoError(t, err)
				m.Write("/root/"+version+"/"+filepath.Base(file), content, 0o644)
			}
		}
	}
	return m
}

// database makes this machine's database reachable at an address of m.
func database(t *testing.T, m *machine.Machine) string {
	t.Helper()
	u, err := url.Parse(pgtest.Empty(t))
	require.NoError(t, err)
	m.Forward("127.0.0.1:5433", u.Host)
	u.Host = "127.0.0.1:5433"
	return u.String()
}

// configure configures all programs to run on one machine without identities: the test is about the
// installation, not the mesh.
func configure(t *testing.T, m *machine.Machine) {
	t.Helper()
	m.Type(fmt.Sprintf(`
		echo "PGMESH_DATABASE='%s'" >> /etc/default/mcp-server
		echo PGMESH_MIGRATE=true >> /etc/default/mcp-server
		echo PGMESH_INSECURE=true | tee -a /etc/default/mcp-server >> /etc/default/discovery
		echo 'insecure: true' >> /etc/mesh-agent/mesh-agent.yaml
		echo 'discovery: 127.0.0.1:15010' >> /etc/mesh-agent/mesh-agent.yaml
		echo 'state-dir: /var/lib/mesh-agent' >> /etc/mesh-agent/mesh-agent.yaml`, database(t, m)))
	m.Bring(envoytest.Binary(t), "/usr/local/bin/envoy")
}

var services = []string{"mcp-server", "discovery", "mesh-agent"}

func TestDebianPackages(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("this machine has no dpkg")
	}
	m := boot(t)
	there := traces(m)
	out := m.Type("dpkg -i " + before + "/*.deb")
	require.Contains(t, out, "systemctl enable --now mesh-agent")
	for _, service := range services {
		out, err := m.Try("systemctl is-enabled " + service + " || systemctl is-active " + service)
		require.Error(t, err, "%s runs although nobody has said how", service)
		require.Equal(t, "disabled\ninactive\n", out)
		checkUnit(t, m, service)
	}
	checkFiles(t, m)
	configure(t, m)

	// systemctl returns only when the services are ready.
	m.Type("systemctl enable --now mcp-server discovery mesh-agent 2>&1")
	pids := map[string]string{}
	for _, service := range services {
		pids[service] = running(t, m, service, before)
	}
	require.Contains(t, m.Type("systemctl show -P StatusText mcp-server"), "ready")
	envoy := m.Type("pgrep -u mesh-agent -x envoy")

	// An upgrade keeps edited configuration, and restarts the programs.
	out = m.Type("dpkg -i " + after + "/*.deb 2>&1")
	require.NotContains(t, out, "new version of configuration file")
	require.Contains(t, m.Type("cat /etc/default/mcp-server"), "PGMESH_INSECURE=true")
	settled(m)
	for _, service := range services {
		pid := running(t, m, service, after)
		if service == "mesh-agent" {
			require.Equal(t, pids[service], pid, "the agent was not reloaded but restarted")
		} else {
			require.NotEqual(t, pids[service], pid)
		}
	}
	require.Equal(t, envoy, m.Type("pgrep -u mesh-agent -x envoy"), "an upgrade of the agent is none of Envoy")

	// Removing a package keeps its state, purging deletes it.
	names := "pgmesh-" + strings.Join(programs, " pgmesh-")
	m.Type("dpkg --remove " + names)
	for _, service := range services {
		_, err := m.Try("systemctl is-active " + service)
		require.Error(t, err)
	}
	_, err := m.Try("pgrep -x envoy")
	require.Error(t, err, "Envoy goes on")
	m.Type("test -s /var/lib/pgmesh/mcp-server.snapshot && test -d /var/lib/mesh-agent && grep PGMESH_INSECURE /etc/default/mcp-server")
	_, err = m.Try("ls /etc/systemd/system/multi-user.target.wants/ | grep -E 'mcp-server|discovery|mesh-agent'")
	require.Error(t, err)
	m.Type("dpkg -i " + after + "/*.deb && systemctl start mcp-server") // with the old state
	running(t, m, "mcp-server", after)
	m.Type("dpkg --purge " + names)
	require.Equal(t, there, traces(m))
}

// traces lists the files and accounts of the programs on a machine.
func traces(m *machine.Machine) string {
	return m.Type(`find /etc /usr /lib /var/lib /run -xdev \( -name '*mcp-server*' -o -name '*mcp-client*' -o -name '*mesh-agent*' -o -name '*pgmesh*' \
		-o -name discovery.service -o -path /var/lib/discovery -o -path /etc/default/discovery \) | sort
		getent passwd | grep -E 'mesh|discovery' || true
		getent group | grep -E 'mesh|discovery' || true`)
}

// running checks that a service runs the program of a version under its own account, and returns
// its pid.
func running(t *testing.T, m *machine.Machine, service, version string) string {
	t.Helper()
	require.Equal(t, "active\n", m.Type("systemctl is-active "+service))
	pid := strings.TrimSpace(m.Type("systemctl show -P MainPID " + service))
	users := map[string]string{"mcp-server": "pgmesh", "discovery": "pgmesh-discovery", "mesh-agent": "mesh-agent"}
	require.Equal(t, users[service]+"\n", m.Type("stat -c %U /proc/"+pid))
	require.Contains(t, m.Type("/proc/"+pid+"/exe --version"), "version "+version+" go")
	return pid
}

// settled waits until systemd has restarted the services after an upgrade.
func settled(m *machine.Machine) {
	m.Type(`systemctl start mcp-server discovery mesh-agent`) // returns when they are ready, after any restarts
}

// checkUnit checks a unit with systemd-analyze.
func checkUnit(t *testing.T, m *machine.Machine, service string) {
	t.Helper()
	unit := m.Type("systemctl show -P FragmentPath " + service)
	require.Empty(t, m.Type("systemd-analyze verify "+unit+" 2>&1"))
	threshold := "15" // of 100: the remaining exposure is the network, and running on the machine at all
	if service == "mesh-agent" {
		threshold = "25" // it may redirect traffic
	}
	_, err := m.Try("systemd-analyze security --no-pager --threshold=" + threshold + " --offline=yes " + unit)
	require.NoError(t, err)
}

// checkFiles checks the files that the packages have installed.
func checkFiles(t *testing.T, m *machine.Machine) {
	t.Helper()
	for _, program := range programs {
		require.Contains(t, m.Type("dpkg --verify pgmesh-"+program+" && echo as packed"), "as packed")
		listed := m.Type("dpkg -L pgmesh-" + program)
		for line := range strings.Lines(listed) {
			require.Regexp(t, `^/(\.|etc|usr)`, line)
		}
		require.NoError(t, errorOf(m.Try("bash -n /usr/share/bash-completion/completions/"+program)))
		require.Contains(t, m.Type("man -l /usr/share/man/man1/"+program+".1.gz | cat"), "NAME")
		require.Empty(t, m.Type("for page in /usr/share/man/man1/"+program+"*.gz; do zcat $page | groff -man -ww -Tutf8 2>&1 >/dev/null; done"))
		for below := range strings.FieldsSeq(m.Type(program + " __complete '' 2>/dev/null | grep -v ^: | cut -f1")) {
			if below != "help" {
				require.Contains(t, listed, "/man1/"+program+"-"+below+".1.gz\n")
			}
		}
	}
	require.Contains(t, m.Type("cat /usr/share/pgmesh/schemas/networking.istio.io/virtualservice_v1.json"), `"title": "VirtualService"`)
	require.Equal(t, "alerts.yaml\ncopyright\ndashboards\n", m.Type("ls /usr/share/doc/pgmesh-mcp-server"))
	require.Contains(t, m.Type("cat /usr/share/doc/pgmesh-mcp-server/dashboards/mesh.json"), `"panels"`)
	require.Equal(t, "640 root:pgmesh\n", m.Type("stat -c '%a %U:%G' /etc/default/mcp-server"))
	require.Equal(t, "700 mesh-agent:mesh-agent\n", m.Type("stat -c '%a %U:%G' /var/lib/mesh-agent"))
	for _, shell := range []string{"zsh", "fish"} {
		if _, err := exec.LookPath(shell); err == nil {
			m.Type(shell + " -n /usr/share/zsh/site-functions/_mesh-agent || " + shell + " -n /usr/share/fish/vendor_completions.d/mesh-agent.fish")
		}
	}
}

func errorOf(_ string, err error) error { return err }

func TestRPMPackages(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("this machine has no rpm: tools/machine-packages installs it")
	}
	m := boot(t)
	there := traces(m)
	rpm := "rpm --nodeps" // what they depend on is installed, but not as an rpm
	if _, err := os.Stat("/etc/debian_version"); err == nil {
		rpm += " --force-debian"
	}
	m.Type(rpm + " -i " + before + "/*.rpm")
	names := "pgmesh-" + strings.Join(programs, " pgmesh-")
	out, _ := m.Try("rpm -V --nodeps " + names)
	require.Regexp(t, `\A(\.{6}G\.\.  c /etc/default/\S+\n(\w+: .*)?)*`, out) // the script creates their group
	require.NotContains(t, out, "5")
	for _, service := range services {
		require.Contains(t, m.Type("systemctl show -P FragmentPath "+service), "lib/systemd/system/")
	}
	configure(t, m)
	m.Type("systemctl enable --now mcp-server discovery 2>&1")
	first := running(t, m, "mcp-server", before)

	m.Type(rpm + " -U " + after + "/*.rpm 2>&1")
	require.Contains(t, m.Type("cat /etc/default/mcp-server"), "PGMESH_INSECURE=true")
	m.Type("systemctl start mcp-server discovery")
	require.NotEqual(t, first, running(t, m, "mcp-server", after))

	m.Type("rpm -e --nodeps " + names + " 2>&1")
	_, err := m.Try("systemctl is-active mcp-server")
	require.Error(t, err)
	m.Type("test -s /var/lib/pgmesh/mcp-server.snapshot && grep PGMESH_INSECURE /etc/default/mcp-server.rpmsave")
	left := m.Type(`rm -rf /etc/*/*.rpmsave /etc/mesh-agent /var/lib/pgmesh /var/lib/discovery /var/lib/mesh-agent
		userdel pgmesh; userdel pgmesh-discovery; userdel mesh-agent`)
	require.Empty(t, left)
	require.Equal(t, there, traces(m))
}
