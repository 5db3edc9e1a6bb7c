package main

import (
	"context"
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/machine"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// fresh makes the files of a new Debian, which has nothing of this machine.
func fresh(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "mmdebstrap", "--quiet", "--variant=minbase",
		"--include=systemd,systemd-sysv,iproute2,adduser,nftables,curl,procps", "bookworm", root).CombinedOutput()
	require.NoError(t, err, "make the files of a new Debian: %s", out)
	return root
}

// pair is two new machines: one is to serve the mesh, the other to join it.
type pair struct {
	t         *testing.T
	mesh, api *machine.Machine
	db        *pgx.Conn
	url       string
}

func boot(t *testing.T) *pair {
	t.Helper()
	network := netns.NewSwitch(t)
	serve(t, network.Namespace)
	root := fresh(t)
	p := &pair{t: t}
	p.mesh, p.api = machine.BootFrom(t, network.Machine(t), "mesh", root), machine.BootFrom(t, network.Machine(t), "api", root)
	for _, m := range []*machine.Machine{p.mesh, p.api} {
		m.Write("/etc/hosts", fmt.Appendf(nil, "127.0.0.1 localhost\n%s mesh.example\n", p.mesh.IPv4), 0o644)
		m.Type("rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*") // there is no way to them
		m.Type("curl --fail --silent --show-error -o /etc/apt/sources.list.d/pgmesh.sources " + address + "/pgmesh.sources")
	}
	database, err := url.Parse(pgtest.Empty(t))
	require.NoError(t, err)
	p.db, err = pgx.Connect(t.Context(), database.String())
	require.NoError(t, err)
	t.Cleanup(func() { p.db.Close(context.Background()) })
	p.mesh.Forward("127.0.0.1:5433", database.Host)
	database.Host = "127.0.0.1:5433"
	p.url = database.String()
	return p
}

const (
	ofMesh = "pgmesh-mcp-server pgmesh-mcp-client pgmesh-discovery"
	ofAPI  = "pgmesh-mesh-agent"
)

// install has apt install a version of packages from the site, or change to it.
func install(m *machine.Machine, packages, version string) string {
	var words []string
	for name := range strings.FieldsSeq(packages) {
		words = append(words, name+"="+version+"-1")
	}
	return m.Type("apt-get update -qq && apt-get install -y -qq --allow-downgrades " + strings.Join(words, " ") + " 2>&1")
}

// join sets the mesh up and has the other machine join it, as docs/machines.md says.
func (p *pair) join() {
	p.t.Helper()
	p.mesh.Type(`install -m 0600 -o pgmesh /dev/null /etc/pgmesh/secrets.key
		mcp-server secrets key > /etc/pgmesh/secrets.key
		cat >> /etc/default/mcp-server <<'END'
PGMESH_DATABASE='` + p.url + `'
PGMESH_SECRETS_KEY_FILE=/etc/pgmesh/secrets.key
PGMESH_LISTEN=:15020
PGMESH_HOST=mesh.example
PGMESH_MIGRATE=true
END
		systemctl enable --now mcp-server
		set -a; . /etc/default/mcp-server; set +a
		mcp-server authority roots > mesh.pem
		(umask 077; mcp-server token create admin --scope admin > admin.token)
		mcp-client context set mesh --server mesh.example:15020 --tls-ca mesh.pem --token-file admin.token --use
		install -m 0600 -o pgmesh-discovery /dev/null /etc/pgmesh/discovery.token
		mcp-server token create eu-1 --for discovery > /etc/pgmesh/discovery.token
		cat >> /etc/default/discovery <<'END'
PGMESH_NAME=eu-1
PGMESH_MCP=mesh.example:15020
PGMESH_JOIN_TOKEN_FILE=/etc/pgmesh/discovery.token
PGMESH_HOST=mesh.example
END
		systemctl enable --now discovery
		mcp-client apply -f - <<'END'
apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: api, namespace: payments}
spec:
  metadata: {labels: {app: api}}
  template: {serviceAccount: api, ports: {http: 8080}}
END`)
	token := p.mesh.Type("mcp-client token create --group payments/api --discovery mesh.example 2>/dev/null")
	p.api.Write("/root/token", []byte(token), 0o600)
	p.api.Type("mesh-agent join --server mesh.example:15012 --token-file token && systemctl enable --now mesh-agent 2>&1")
}

// isMember waits until the machine is in the mesh, by the agent of a version and an Envoy that has
// what discovery of that version has sent.
func (p *pair) isMember(version string) {
	p.t.Helper()
	poll.Eventually(p.t, func(ctx context.Context) error {
		var here, synced int
		err := p.db.QueryRow(ctx, `SELECT
			(SELECT count(*) FROM mesh.registered_machines WHERE namespace = 'payments' AND workload_group = 'api' AND state = 'here'),
			(SELECT count(*) FROM mesh.proxies WHERE state = 'synced')`).Scan(&here, &synced)
		if err == nil && (here != 1 || synced != 1) {
			err = fmt.Errorf("%d machines are here, %d proxies are in step", here, synced)
		}
		return err
	})
	for m, services := range map[*machine.Machine][]string{p.mesh: {"mcp-server", "discovery"}, p.api: {"mesh-agent"}} {
		for _, service := range services {
			m.Type("systemctl start " + service) // returns after any restart that is under way
			require.Contains(p.t, m.Type("/proc/$(systemctl show -P MainPID "+service+")/exe --version"), "version "+version+" go", service)
		}
	}
	require.Contains(p.t, p.mesh.Type("mcp-client get workloadentries -n payments"), "api")
}

func TestNewMachinesInstallJoinUpgradeAndGoBack(t *testing.T) {
	need(t, "mmdebstrap", "dpkg")
	publish(t, before)
	p := boot(t)
	install(p.mesh, ofMesh, before)
	install(p.api, ofAPI, before)
	require.Contains(t, p.api.Type("envoy --version"), "1.40", "pgmesh-envoy came with the agent")
	p.join()
	p.isMember(before)

	const kept = "sha256sum /etc/default/mcp-server /etc/default/discovery /etc/pgmesh/secrets.key"
	settings := p.mesh.Type(kept)
	const identity = "sha256sum /etc/mesh-agent/mesh-agent.yaml; mesh-agent status | grep -i spiffe | cut -d, -f1"
	who := p.api.Type(identity)
	const same = "systemctl show -P MainPID mesh-agent; pgrep -u mesh-agent -x envoy"
	running := p.api.Type(same)

	publish(t, after)
	for _, m := range []*machine.Machine{p.mesh, p.api} {
		m.Type("apt-get update -qq && apt-get upgrade -y -qq 2>&1")
	}
	p.isMember(after)
	require.Equal(t, settings, p.mesh.Type(kept))
	require.Equal(t, who, p.api.Type(identity))
	require.Equal(t, running, p.api.Type(same), "an upgrade has neither the agent nor Envoy end")

	install(p.mesh, ofMesh, before)
	install(p.api, ofAPI, before)
	p.isMember(before)
	require.Equal(t, settings, p.mesh.Type(kept))
	require.Equal(t, who, p.api.Type(identity))
	require.Equal(t, running, p.api.Type(same))
}
