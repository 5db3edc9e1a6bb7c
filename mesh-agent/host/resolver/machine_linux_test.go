package resolver_test

import (
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	booted "github.com/pgmesh/pgmesh/internal/testbench/machine"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// office answers for www.test, as the resolver of a network does.
func office(t *testing.T, n *netns.Namespace) {
	t.Helper()
	server := &dns.Server{PacketConn: n.ListenPacket("udp", n.IPv4.String()+":53"), Handler: dns.HandlerFunc(func(w dns.ResponseWriter, m *dns.Msg) {
		answer := new(dns.Msg).SetRcode(m, dns.RcodeNameError)
		if q := m.Question[0]; strings.EqualFold(q.Name, "www.test.") || strings.EqualFold(q.Name, "www.office.example.") {
			answer = new(dns.Msg).SetReply(m)
			if q.Qtype == dns.TypeA {
				answer.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.IPv4(192, 0, 2, 80)}}
			}
		}
		if o := m.IsEdns0(); o != nil {
			answer.SetEdns0(1232, false)
		}
		_ = w.WriteMsg(answer)
	})}
	started, ended := make(chan struct{}), make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() { _ = server.ActivateAndServe(); close(ended) }()
	<-started
	t.Cleanup(func() { _ = server.Shutdown(); <-ended })
}

// lastNames is the file with the names that an agent knew when it ended.
func lastNames(t *testing.T) []byte {
	t.Helper()
	content, err := proto.Marshal(&ndsv1.NameTable{Table: map[string]*ndsv1.NameTable_NameInfo{
		"reviews.default.svc.cluster.local": {Ips: []string{"240.240.0.1"}},
		"api.example.com":                   {Ips: []string{"240.240.0.2"}},
	}})
	require.NoError(t, err)
	sum := sha256.Sum256(content)
	return append(sum[:], content...)
}

// resolvedPackage is that of systemd-resolved, which tools/machine-packages fetches.
func resolvedPackage(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("../../../.tools/packages/systemd-resolved_*.deb")
	require.NoError(t, err)
	if len(found) == 0 {
		t.Skip("there is no package of systemd-resolved: tools/machine-packages fetches it")
	}
	return found[0]
}

// resolvedMachine is one whose programs ask systemd-resolved, and that asks the office, with an
// agent's unit.
func resolvedMachine(t *testing.T, unit string) *booted.Machine {
	t.Helper()
	deb := resolvedPackage(t)
	network := netns.NewSwitch(t)
	officer := network.Machine(t)
	office(t, officer)
	m := booted.Boot(t, network.Machine(t), "one")
	m.Bring(deb, "/root/resolved.deb")
	m.Bring(os.Args[0], "/usr/bin/mesh-agent")
	m.Bring(envoytest.Binary(t), "/usr/bin/envoy")
	m.Type("dpkg --force-all -i /root/resolved.deb && ln -sf /run/systemd/resolve/stub-resolv.conf /etc/resolv.conf && systemctl restart systemd-resolved")
	m.Type("printf 'passwd: files\\nhosts: files dns\\n' > /etc/nsswitch.conf")
	m.Type(fmt.Sprintf("resolvectl dns eth0 %s && resolvectl domain eth0 office.example", officer.IPv4))
	m.Type("rm -rf /var/lib/mesh-agent; useradd --system mesh-agent; install -d -o mesh-agent -g mesh-agent -m 700 /var/lib/mesh-agent")
	m.Write("/var/lib/mesh-agent/names", lastNames(t), 0o644)
	m.Write("/etc/systemd/system/mesh-agent.service", []byte(`[Service]
Environment=`+agenttest.Variable+`
ExecStart=/usr/bin/mesh-agent run --insecure --discovery 127.0.0.1:1 --envoy /usr/bin/envoy --state-dir /var/lib/mesh-agent --dns auto
KillMode=control-group
`+unit), 0o644)
	m.Type("systemctl daemon-reload")
	return m
}

// asks waits until a name is found, or not, by a program that asks through the C library.
func asks(t *testing.T, m *booted.Machine, name, want string) {
	t.Helper()
	var got string
	require.Eventually(t, func() bool {
		out, _ := m.Try("getent ahostsv4 " + name) // it fails for unknown names
		got, _, _ = strings.Cut(out, " ")
		return got == want
	}, 30*time.Second, 100*time.Millisecond, "%s is %q, want %q", name, &got, want)
}

func TestResolvedUsesTheAgent(t *testing.T) {
	t.Parallel()
	m := resolvedMachine(t, "")
	asks(t, m, "www.test", "192.0.2.80")
	asks(t, m, "reviews", "")

	m.Type("systemctl start mesh-agent")
	asks(t, m, "reviews", "240.240.0.1")
	asks(t, m, "reviews.default", "240.240.0.1")
	asks(t, m, "api.example.com", "240.240.0.2")
	asks(t, m, "www.test", "192.0.2.80")
	asks(t, m, "www", "192.0.2.80") // by the network's own search domain

	m.Type("systemctl kill -s KILL mesh-agent")
	asks(t, m, "www.test", "192.0.2.80")
	asks(t, m, "api.example.com", "")
	asks(t, m, "www", "192.0.2.80")

	m.Type("systemctl start mesh-agent")
	asks(t, m, "api.example.com", "240.240.0.2")
	m.Type("systemctl stop mesh-agent")
	m.Type("test ! -e /run/systemd/resolved.conf.d/90-mesh-agent.conf")
	asks(t, m, "api.example.com", "")
	asks(t, m, "www.test", "192.0.2.80")
}

// An agent that is not root's leaves it to its unit, which has root do it.
func TestUnitConfiguresDNSForAnUnprivilegedAgent(t *testing.T) {
	t.Parallel()
	m := resolvedMachine(t, `User=mesh-agent
AmbientCapabilities=CAP_NET_BIND_SERVICE
ProtectSystem=strict
StateDirectory=mesh-agent
ExecStartPost=/bin/sh -c 'until /usr/bin/mesh-agent dns lookup localhost; do :; done'
ExecStartPost=+-/usr/bin/mesh-agent dns apply --dns auto
ExecStopPost=+-/usr/bin/mesh-agent dns restore
`)
	m.Type("systemctl start mesh-agent")
	asks(t, m, "reviews.default", "240.240.0.1")
	asks(t, m, "api.example.com", "240.240.0.2")
	asks(t, m, "www.test", "192.0.2.80")
	asks(t, m, "nothing.example", "")

	m.Type("systemctl kill -s KILL mesh-agent")
	asks(t, m, "api.example.com", "")
	asks(t, m, "www.test", "192.0.2.80")
	m.Type("timeout 30 sh -c 'while test -e /run/systemd/resolved.conf.d/90-mesh-agent.conf; do :; done'") // the unit restores asynchronously
	m.Type("systemctl start mesh-agent")
	asks(t, m, "api.example.com", "240.240.0.2")

	// Without systemd-resolved it is resolv.conf, and another address if the first is taken.
	m.Type("systemctl stop mesh-agent systemd-resolved && rm -r /run/systemd/resolve /etc/resolv.conf && echo nameserver " + strings.TrimSpace(m.Type("ip -4 route show default | cut -d' ' -f3")) + " > /etc/resolv.conf")
	m.Type("systemctl start mesh-agent")
	require.Contains(t, m.Type("cat /etc/resolv.conf"), "nameserver 127.0.0.1\n")
	asks(t, m, "api.example.com", "240.240.0.2")
	m.Type("systemctl stop mesh-agent")
	require.NotContains(t, m.Type("cat /etc/resolv.conf"), "127.0.0.1")
}
