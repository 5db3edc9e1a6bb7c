package commands_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/machine"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
)

// checked is a machine with the unit of the packages, whose agent is this test's.
func checked(t *testing.T) *machine.Machine {
	t.Helper()
	m := machine.Boot(t, netns.NewSwitch(t).Machine(t), "one")
	m.Bring(os.Args[0], "/usr/bin/mesh-agent")
	m.Bring(envoytest.Binary(t), "/usr/bin/envoy")
	shipped, err := os.ReadFile("../../deploy/systemd/mesh-agent.service")
	require.NoError(t, err)
	m.Write("/etc/systemd/system/mesh-agent.service", shipped, 0o644)
	m.Type("getent passwd mesh-agent || useradd --system mesh-agent; rm -rf /var/lib/mesh-agent; install -d -o mesh-agent -g mesh-agent -m 0700 /var/lib/mesh-agent")
	m.Type("mkdir -p /etc/mesh-agent /etc/systemd/system/mesh-agent.service.d")
	m.Write("/etc/systemd/system/mesh-agent.service.d/test.conf", []byte("[Service]\nEnvironment="+agenttest.Variable+"\nLimitNOFILE=2048\n"), 0o644)
	m.Type("systemctl daemon-reload")
	return m
}

// checkOn runs mesh-agent check as root, and returns what it says.
func checkOn(t *testing.T, m *machine.Machine, flags string) string {
	t.Helper()
	output, _ := m.Try(agenttest.Variable + " mesh-agent check --discovery 127.0.0.1:1 --tls-cert /etc/mesh-agent/cert.pem --tls-key /etc/mesh-agent/key.pem --tls-roots /etc/mesh-agent/cert.pem " + flags)
	return output
}

func TestCheckJudgesTheUnitsAccount(t *testing.T) {
	t.Parallel()
	m := checked(t)
	m.Type("cd /etc/mesh-agent && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout key.pem -out cert.pem -subj / -addext subjectAltName=URI:spiffe://mesh.example/ns/shop/sa/cart 2>/dev/null")
	m.Type("chmod 0600 /etc/mesh-agent/key.pem") // root's

	said := checkOn(t, m, "--status 127.0.0.1:80")
	require.Regexp(t, `(?m)^ok +account +judged for mesh-agent, as the unit mesh-agent.service runs the agent`, said)
	require.Regexp(t, `(?m)^failure +identity +.*/etc/mesh-agent/key.pem: permission denied`, said, "root may read it")
	require.Regexp(t, `(?m)^ok +ports +127.0.0.1:80 is free for the agent's status`, said, "its capability counts")
	require.Regexp(t, `(?m)^ok +state +/var/lib/mesh-agent is this account's alone`, said)
	require.Regexp(t, `(?m)^warning +open files +a process may have 2048 files open`, said, "the unit's limit counts")
	require.NotContains(t, said, "whether the clock is synchronized cannot be told")

	said = checkOn(t, m, "--unit ''")
	require.Regexp(t, `(?m)^ok +account +judged for root, as this process runs`, said)
	require.Regexp(t, `(?m)^ok +identity +this machine is spiffe://mesh.example/ns/shop/sa/cart`, said)

	m.Type("chown mesh-agent /etc/mesh-agent/key.pem")
	require.Regexp(t, `(?m)^ok +identity +this machine is spiffe://mesh.example/ns/shop/sa/cart`, checkOn(t, m, ""))

	// What the unit hides and forbids counts, too.
	m.Type("install -d -o mesh-agent -m 0700 /home/state /opt/state")
	require.Regexp(t, `(?m)^(failure|warning) +state +.*/home/state`, checkOn(t, m, "--state-dir /home/state"))
	require.Regexp(t, `(?m)^failure +state +/opt/state cannot be written to: .*read-only file system`, checkOn(t, m, "--state-dir /opt/state"))
	m.Write("/etc/systemd/system/mesh-agent.service.d/ports.conf", []byte("[Service]\nAmbientCapabilities=\n"), 0o644)
	m.Type("systemctl daemon-reload")
	require.Regexp(t, `(?m)^failure +ports +127.0.0.1:80, for the agent's status, may not be opened by this account`, checkOn(t, m, "--status 127.0.0.1:80"))

	m.Write("/etc/mesh-agent/mesh-agent.yaml", []byte("status: 127.0.0.1:15026\n"), 0o600)
	require.Regexp(t, `(?m)^failure +account +what the agent may do cannot be told: .*mesh-agent.yaml: permission denied`, checkOn(t, m, ""))
	m.Type("rm /etc/mesh-agent/mesh-agent.yaml /etc/systemd/system/mesh-agent.service; systemctl daemon-reload")
	require.Regexp(t, `(?m)^warning +account +judged for root, as this process runs, for nobody says who runs the agent: there is no such unit as mesh-agent.service: No files found`, checkOn(t, m, ""))
}
