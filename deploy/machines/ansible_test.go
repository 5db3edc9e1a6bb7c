package machines_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/internal/testbench/machine"
)

// play runs a play on a machine, which is then the controller and the host in one. It returns what Ansible
// says of the host at the end: "ok=9 changed=5 …".
func (p *place) play(m *machine.Machine, vars string) (recap, out string, err error) {
	p.t.Helper()
	m.Write("/root/play.yml", []byte("- hosts: all\n  connection: local\n  vars:\n"+vars+"  roles: [mesh_agent]\n"), 0o644)
	return p.again(m)
}

// again runs the play that is there.
func (p *place) again(m *machine.Machine) (recap, out string, err error) {
	p.t.Helper()
	roles, err := filepath.Abs("../ansible/roles")
	require.NoError(p.t, err)
	folder := os.Getenv("ANSIBLE")
	out, err = m.Try(fmt.Sprintf("cd /root && PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 PYTHONPATH=%[1]s ANSIBLE_ROLES_PATH=%[2]s ANSIBLE_LOCALHOST_WARNING=false /usr/bin/python3 %[1]s/bin/ansible-playbook "+
		"-i this, -e ansible_python_interpreter=/usr/bin/python3 play.yml 2>&1", folder, roles))
	if _, after, found := strings.Cut(out, "PLAY RECAP"); found {
		_, recap, _ = strings.Cut(after, ": ")
		recap = strings.Join(strings.Fields(recap), " ")
	}
	return recap, out, err
}

// played runs a play that has to succeed.
func (p *place) played(m *machine.Machine, vars string) (recap, out string) {
	p.t.Helper()
	recap, out, err := p.play(m, vars)
	require.NoError(p.t, err, out)
	return recap, out
}

// Ansible makes two machines members by its role: one by a token that it is given, and one by a token that the
// controller makes. A second run changes nothing, and a mistake in the settings is refused while the agent goes on.
func TestAnsible(t *testing.T) {
	if os.Getenv("ANSIBLE") == "" {
		t.Skip("ANSIBLE names no folder with Ansible: make ansible has it")
	}
	if err := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import apt").Run(); err != nil {
		t.Skip("/usr/bin/python3 of this machine does not know apt, by which Ansible installs packages: install python3-apt")
	}
	p := build(t)
	for _, b := range blocks(t) {
		if b.on == "mesh" && (strings.HasPrefix(b.section, "The mesh:") || b.section == "What the mesh is told") {
			p.follow(b)
		}
	}
	api, mesh := p.machines["api"], p.machines["mesh"]
	token := strings.TrimSpace(mesh.Type("mcp-client token create --group payments/api 2>/dev/null"))
	const common = "    mesh_agent_discovery: [mesh.example:15012]\n"
	vars := common + "    mesh_agent_packages: [/root/PACKAGE]\n    mesh_agent_settings: {envoy: /usr/bin/envoy, labels: {version: v1}, services: [{group: api}]}\n"
	of := func(m *machine.Machine) string {
		return strings.Replace(vars, "PACKAGE", strings.TrimSpace(filepath.Base(m.Type("ls /root/pgmesh-mesh-agent_*.deb"))), 1)
	}

	_, out, err := p.play(api, of(api))
	require.Error(t, err)
	require.Contains(t, out, "the machine is no member yet: say mesh_agent_discovery, and mesh_agent_join_token or mesh_agent_group")
	_, out = p.played(api, of(api)+"    mesh_agent_join_token: "+token+"\n")
	require.NotContains(t, out, token, "a token is not shown")
	p.eventually("SELECT count(*) FROM mesh.registered_machines WHERE namespace = 'payments' AND workload_group = 'api' AND state = 'here'", 1)
	recap, out := p.played(api, of(api))
	require.Contains(t, recap, " changed=0 ", out)

	// A setting that nobody knows is refused before it is in force, and the agent stays.
	before := api.Type("systemctl show -P MainPID mesh-agent")
	_, out, err = p.play(api, strings.Replace(of(api), "labels:", "lables:", 1))
	require.Error(t, err)
	require.Contains(t, strings.ReplaceAll(out, `\"`, `"`), `"lables" is no setting: did you mean "labels"?`)
	recap, out = p.played(api, strings.Replace(of(api), "version: v1", "version: v2", 1))
	require.Contains(t, recap, " changed=2 ", out)
	require.Equal(t, before, api.Type("systemctl show -P MainPID mesh-agent"), "settings are read again without a restart")
	p.eventually("SELECT count(*) FROM mesh.resources WHERE kind = 'WorkloadEntry' AND spec #>> '{labels,version}' = 'v2'", 1)

	api.Type("cd /root && sed -i 's/  roles: .mesh_agent./  tasks: [{ansible.builtin.include_role: {name: mesh_agent, tasks_from: drain}, vars: {mesh_agent_drain_wait: 5s}}]/' play.yml")
	_, out, err = p.again(api)
	require.NoError(t, err, out)
	p.eventually("SELECT count(*) FROM mesh.registered_machines WHERE namespace = 'payments' AND health = 'draining'", 1)
	api.Type("cd /root && sed -i 's/tasks_from: drain/tasks_from: undrain/' play.yml")
	_, out, err = p.again(api)
	require.NoError(t, err, out)
	p.eventually("SELECT count(*) FROM mesh.registered_machines WHERE namespace = 'payments' AND health <> 'draining'", 1)

	// The controller makes the token of its own machine.
	mesh.Bring(envoytest.Binary(t), "/usr/bin/envoy")
	without, _, _ := strings.Cut(of(mesh), "    mesh_agent_settings")
	p.played(mesh, without+"    mesh_agent_settings: {envoy: /usr/bin/envoy}\n    mesh_agent_group: shop/web\n    mesh_agent_id: web.shop\n")
	p.eventually("SELECT count(*) FROM mesh.proxies WHERE proxy = 'web.shop' AND state <> 'away'", 1)
}
