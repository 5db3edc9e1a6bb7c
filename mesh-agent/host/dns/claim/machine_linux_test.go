package claim_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	miekg "github.com/miekg/dns"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pgmesh/pgmesh/internal/testbench/netns"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns"
	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/claim"
	ndsv1 "github.com/pgmesh/pgmesh/proto/istio/networking/nds/v1"
)

// beResolver is the environment variable that makes this test binary a resolver which claims its
// machine. Its value is the folder for the record.
const beResolver = "CLAIM_TEST_BE_RESOLVER"

func TestMain(m *testing.M) {
	if state := os.Getenv(beResolver); state != "" {
		if err := resolve(state); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

func resolve(state string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	server, err := dns.Open(dns.Options{Port53: true, Domain: "shop.svc.cluster.local", TTL: time.Second, ResolvConf: "/etc/resolv.conf", Log: log})
	if err != nil {
		return err
	}
	server.Names(&ndsv1.NameTable{Table: map[string]*ndsv1.NameTable_NameInfo{
		"reviews.shop.svc.cluster.local": {Ips: []string{"240.240.0.1", "2001:2::f0f0:1"}},
		"api.example.com":                {Ips: []string{"240.240.0.2"}},
	}})
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	m := claim.On(state, log)
	c := claim.Claim{Mode: claim.ResolvConf, Server: server.Port53Address()}
	if err := m.Keep(ctx, c, nil); err != nil {
		return err
	}
	return <-ended
}

// box is a machine with its own network and /etc, which lives as long as its holder.
type box struct {
	t      *testing.T
	etc    string
	state  string
	holder int
}

func newBox(t *testing.T, resolvConf string) *box {
	t.Helper()
	s := netns.NewSwitch(t)
	office, network := s.Machine(t), s.Machine(t)
	answerFor(t, office, "192.0.2.80")
	b := &box{t: t, etc: t.TempDir(), state: t.TempDir()}
	b.file("resolv.conf", strings.ReplaceAll(resolvConf, "OFFICE", office.IPv4.String()))
	b.file("nsswitch.conf", "hosts: files dns\n")
	b.file("hosts", "127.0.0.1 localhost\n")
	b.file("host.conf", "multi on\n")
	command := network.Command(t.Context(), "unshare", "-m", "sh", "-c", "mount --bind "+b.etc+" /etc && echo ready && exec sleep infinity")
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	b.holder = command.Process.Pid
	return b
}

func (b *box) file(name, content string) {
	b.t.Helper()
	require.NoError(b.t, os.WriteFile(filepath.Join(b.etc, name), []byte(content), 0o644))
}

func (b *box) resolvConf() string {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join(b.etc, "resolv.conf"))
	require.NoError(b.t, err)
	return string(content)
}

// answerFor answers every question about .test with an address, and others with nothing.
func answerFor(t *testing.T, n *netns.Namespace, ip string) {
	t.Helper()
	server := &miekg.Server{PacketConn: n.ListenPacket("udp", n.IPv4.String()+":53"), Handler: miekg.HandlerFunc(func(w miekg.ResponseWriter, m *miekg.Msg) {
		answer := new(miekg.Msg).SetRcode(m, miekg.RcodeNameError)
		if name := m.Question[0].Name; strings.HasSuffix(name, "www.test.") {
			answer = new(miekg.Msg).SetReply(m)
			if m.Question[0].Qtype == miekg.TypeA {
				answer.Answer = []miekg.RR{&miekg.A{Hdr: miekg.RR_Header{Name: name, Rrtype: miekg.TypeA, Class: miekg.ClassINET, Ttl: 1}, A: net.ParseIP(ip)}}
			}
		}
		_ = w.WriteMsg(answer)
	})}
	started, ended := make(chan struct{}), make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	go func() { _ = server.ActivateAndServe(); close(ended) }()
	<-started
	t.Cleanup(func() { _ = server.Shutdown(); <-ended })
}

func (b *box) command(words ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", strconv.Itoa(b.holder), "-m", "-n"}, words...)...)
}

// getent resolves through the C library, as programs do.
func (b *box) getent(name string) string {
	b.t.Helper()
	out, _ := b.command("getent", "ahosts", name).Output() // it fails for unknown names
	var ips []string
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "STREAM" {
			ips = append(ips, fields[0])
		}
	}
	return strings.Join(ips, " ")
}

// resolver is a resolver in a box.
type resolver struct {
	*exec.Cmd

	log *bufio.Scanner
}

func (b *box) resolver() *resolver {
	b.t.Helper()
	cmd := b.command(os.Args[0])
	cmd.Env = append(os.Environ(), beResolver+"="+b.state)
	out, err := cmd.StderrPipe()
	require.NoError(b.t, err)
	require.NoError(b.t, cmd.Start())
	b.t.Cleanup(func() { _ = cmd.Process.Kill() })
	r := &resolver{cmd, bufio.NewScanner(out)}
	heard := map[string]bool{}
	for r.log.Scan() {
		for _, word := range []string{"this machine asks the mesh", "answering for the names"} {
			heard[word] = heard[word] || strings.Contains(r.log.Text(), word)
		}
		if heard["this machine asks the mesh"] && heard["answering for the names"] {
			return r
		}
	}
	b.t.Fatal("the resolver ended")
	return nil
}

func (r *resolver) end(t *testing.T, by syscall.Signal) {
	t.Helper()
	require.NoError(t, r.Process.Signal(by))
	for r.log.Scan() {
		t.Log(r.log.Text())
	}
	err := r.Wait()
	if by == syscall.SIGTERM {
		require.NoError(t, err)
	}
}

func TestMachineResolvesWithAndWithoutTheAgent(t *testing.T) {
	t.Parallel()
	b := newBox(t, "search lan.test\nnameserver OFFICE\noptions timeout:1 attempts:2 rotate\n")
	before := b.resolvConf()
	require.Empty(t, b.getent("reviews"))
	require.Equal(t, "192.0.2.80", b.getent("www.test"))

	r := b.resolver()
	for asked, want := range map[string]string{
		"reviews.shop.svc.cluster.local": "2001:2::f0f0:1 240.240.0.1",
		"reviews":                        "2001:2::f0f0:1 240.240.0.1",
		"reviews.shop":                   "2001:2::f0f0:1 240.240.0.1",
		"api.example.com":                "240.240.0.2",
		"www.test":                       "192.0.2.80",
		"nothing.example":                "",
		"localhost":                      "127.0.0.1",
	} {
		require.ElementsMatch(t, strings.Fields(want), strings.Fields(b.getent(asked)), asked)
	}

	r.end(t, syscall.SIGKILL)
	require.NotEqual(t, before, b.resolvConf(), "nobody could take it back")
	require.Equal(t, "192.0.2.80", b.getent("www.test"), "names of others are found as before")
	require.Empty(t, b.getent("reviews"))

	r = b.resolver()
	require.NotEmpty(t, b.getent("reviews"))
	r.end(t, syscall.SIGTERM)
	require.Equal(t, before, b.resolvConf())
	require.Equal(t, "192.0.2.80", b.getent("www.test"))
}

func TestNetworkManagerMayRewriteTheFile(t *testing.T) {
	t.Parallel()
	b := newBox(t, "nameserver OFFICE\n")
	r := b.resolver()
	const theirs = "# Generated by NetworkManager\nsearch elsewhere.example\nnameserver 10.77.0.2\n"
	b.file("resolv.conf", theirs)
	require.Eventually(t, func() bool { return strings.HasSuffix(b.resolvConf(), "nameserver 127.0.0.1\n"+theirs) }, 20*time.Second, 10*time.Millisecond)
	require.Equal(t, "240.240.0.2", b.getent("api.example.com"))
	require.Equal(t, "192.0.2.80", b.getent("www.test"))
	r.end(t, syscall.SIGTERM)
	require.Equal(t, theirs, b.resolvConf())
}
