package check_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/freeport"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/envoytest"
	"github.com/pgmesh/pgmesh/mesh-agent/host/check"
)

// only returns the single finding of a check.
func only(t *testing.T, c check.Check) check.Finding {
	t.Helper()
	all := c(t.Context())
	require.Len(t, all, 1, "%v", all)
	return all[0]
}

// of returns the findings about a part.
func of(all []check.Finding, part string) (found []check.Finding) {
	for _, f := range all {
		if f.Part == part {
			found = append(found, f)
		}
	}
	return found
}

func requireFinding(t *testing.T, f check.Finding, state check.State, says, do string) {
	t.Helper()
	require.Equal(t, state, f.State, "%+v", f)
	require.Contains(t, f.Says, says)
	require.Contains(t, f.Do, do)
}

// secure starts a TLS server with a certificate of this validity.
func secure(t *testing.T, begin, end time.Time) string {
	t.Helper()
	pair := certtest.NewAuthority(t).Issue(func(c *x509.Certificate) { c.NotBefore, c.NotAfter = begin, end })
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair.Certificate(t)}})
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_ = conn.(*tls.Conn).HandshakeContext(t.Context())
			}()
		}
	}()
	return l.Addr().String()
}

func TestCertificatesRevealAWrongClock(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second) // the resolution of certificates
	synced := func() (bool, error) { return true, nil }
	good := secure(t, now.Add(-time.Hour), now.Add(time.Hour))
	at := func(now time.Time, synchronized func() (bool, error)) check.Finding {
		return only(t, check.Clock(func() time.Time { return now }, synchronized, []string{"127.0.0.1:1", good}))
	}
	requireFinding(t, at(now, synced), check.OK, "synchronized", "")
	requireFinding(t, at(now.Add(-3*time.Hour), synced), check.Failure, "clock is behind, by 2h0m", "set the clock")
	requireFinding(t, at(now.Add(3*time.Hour), synced), check.Failure, "2h0m", "set the clock")
	requireFinding(t, at(now, func() (bool, error) { return false, nil }), check.Warning, "nobody synchronizes the clock", "timedatectl")
	requireFinding(t, at(now, func() (bool, error) { return false, errors.New("not here") }), check.Warning, "not here", "")
	_, err := check.Synchronized()
	require.NoError(t, err)
}

func TestEachDiscoveryIsTried(t *testing.T) {
	t.Parallel()
	connect := func(_ context.Context, server string) (string, error) {
		if server == "b:15012" {
			return "eu-1", nil
		}
		return "", errors.New("connection refused")
	}
	requireFinding(t, only(t, check.Discovery(nil, connect)), check.Failure, "nobody has said where discovery is", "--discovery")
	requireFinding(t, only(t, check.Discovery([]string{"a:15012"}, connect)), check.Failure, "a:15012: connection refused", "firewall")
	both := check.Discovery([]string{"a:15012", "b:15012"}, connect)(t.Context())
	requireFinding(t, both[0], check.Warning, "connection refused", "see that a is up")
	requireFinding(t, both[1], check.OK, "b:15012 answers, and is eu-1", "")
}

func TestPorts(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	taken := check.Port{What: "Envoy's admin API", Address: l.Addr().String(), Flag: "admin"}
	f := only(t, check.Ports([]check.Port{taken, {What: "nothing"}}, false))
	_, port, _ := net.SplitHostPort(taken.Address)
	requireFinding(t, f, check.Failure, taken.Address+" is taken, which is for Envoy's admin API", "ss -lntup 'sport = :"+port+"') and end that, or choose another address with --admin")
	requireFinding(t, only(t, check.Ports([]check.Port{taken}, true)), check.OK, "an agent runs on this machine already", "")

	address, err := freeport.Address() // free for TCP
	require.NoError(t, err)
	packets, err := net.ListenPacket("udp", address)
	require.NoError(t, err)
	defer packets.Close()
	asked := check.Port{What: "the agent's resolver", Address: packets.LocalAddr().String(), UDP: true}
	requireFinding(t, only(t, check.Ports([]check.Port{asked}, false)), check.Failure, "is taken", "end that")
	asked.UDP = false
	requireFinding(t, only(t, check.Ports([]check.Port{asked}, false)), check.OK, "is free for the agent's resolver", "")
	requireFinding(t, only(t, check.Ports([]check.Port{{What: "x", Address: "192.0.2.1:99", Flag: "status"}}, false)), check.Failure, "cannot be opened", "--status")

	_, service, _ := net.SplitHostPort(l.Addr().String())
	var number uint32
	fmt.Sscan(service, &number)
	requireFinding(t, only(t, check.Services(map[string]uint32{"cart's http": number})), check.OK, "of cart's http", "")
	requireFinding(t, only(t, check.Services(map[string]uint32{"cart's http": 1})), check.Warning, "nobody listens on port 1, of cart's http", "start the application")
}

// machine is a healthy system in a temporary folder.
func machine(t *testing.T) check.System {
	t.Helper()
	s := check.System{
		Root: t.TempDir(), StateDir: filepath.Join(t.TempDir(), "state"), Envoy: envoytest.Binary(t), Files: 1 << 20,
		Free:       func(string) (uint64, error) { return 1 << 30, nil },
		ResolvConf: "/etc/resolv.conf", Nameservers: []netip.Addr{netip.MustParseAddr("192.0.2.53")}, Redirected: true, Transparent: true,
	}
	require.NoError(t, os.Mkdir(s.StateDir, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(s.Root, "dev/shm"), 0o755))
	for path, text := range map[string]string{
		"proc/sys/kernel/osrelease":                 "6.1.0-18-amd64",
		"proc/meminfo":                              "MemTotal: 8000000 kB\nMemAvailable:    4000000 kB\n",
		"proc/sys/fs/inotify/max_user_instances":    "128",
		"proc/sys/fs/inotify/max_user_watches":      "65536",
		"proc/sys/net/ipv4/ip_local_port_range":     "32768\t60999",
		"proc/sys/net/ipv4/ip_local_reserved_ports": "",
		"proc/sys/net/ipv4/conf/all/rp_filter":      "2",
		"proc/sys/net/ipv4/conf/lo/rp_filter":       "0",
	} {
		write(t, s, path, text)
	}
	return s
}

func write(t *testing.T, s check.System, path, text string) {
	t.Helper()
	file := filepath.Join(s.Root, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
	require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
}

func checks(s check.System) []check.Check {
	return []check.Check{s.State, s.Kernel, s.Limits, s.Memory, s.Network, s.Program, s.Resolver}
}

func TestGoodMachine(t *testing.T) {
	t.Parallel()
	for _, f := range check.Run(t.Context(), checks(machine(t))...) {
		require.Equal(t, check.OK, f.State, "%+v", f)
		require.Empty(t, f.Do)
	}
}

func TestEachProblemComesWithAdvice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil          func(t *testing.T, s *check.System)
		part           string
		state          check.State
		says, whatToDo string
	}{
		"no state folder": {func(_ *testing.T, s *check.System) { s.StateDir += "/none" }, "state", check.Warning, "there is no folder", "install -d -m 0700"},
		"state for all": {
			func(t *testing.T, s *check.System) { require.NoError(t, os.Chmod(s.StateDir, 0o755)) },
			"state", check.Failure, "others on this machine may enter", "chmod 0700",
		},
		"state is a file": {func(t *testing.T, s *check.System) {
			s.StateDir += "/file"
			require.NoError(t, os.WriteFile(s.StateDir, nil, 0o600))
		}, "state", check.Failure, "is no folder", "--state-dir"},
		"disk full":      {func(_ *testing.T, s *check.System) { s.Free = room(1 << 20) }, "state", check.Failure, "has room for 1 MB", "make room"},
		"disk filling":   {func(_ *testing.T, s *check.System) { s.Free = room(100 << 20) }, "state", check.Warning, "has room for 100 MB", "make room"},
		"old kernel":     {kernel("3.10.0-1160.el7"), "kernel", check.Failure, "Linux 3.10.0-1160.el7 is older", "upgrade"},
		"kernel for nft": {kernel("4.19.0"), "kernel", check.Warning, "nft of Linux 4.19.0", "--redirect-by iptables"},
		"no kernel":      {kernel(""), "kernel", check.Failure, "this is not Linux", "Linux"},
		"no shared memory": {
			func(t *testing.T, s *check.System) { require.NoError(t, os.RemoveAll(filepath.Join(s.Root, "dev"))) },
			"shared memory", check.Failure, "hot restart needs to write to /dev/shm", "--tie-envoy",
		},
		"hardly any files": {func(_ *testing.T, s *check.System) { s.Files = 512 }, "open files", check.Failure, "512 files", "LimitNOFILE"},
		"few files":        {func(_ *testing.T, s *check.System) { s.Files = 4096 }, "open files", check.Warning, "4096 files", "LimitNOFILE"},
		"few inotify":      {file("proc/sys/fs/inotify/max_user_instances", "8"), "inotify", check.Warning, "fs.inotify.max_user_instances is 8", "sysctl -w fs.inotify.max_user_instances=128"},
		"no memory":        {file("proc/meminfo", "MemAvailable:  40000 kB"), "memory", check.Failure, "39 MB", "free some"},
		"little memory":    {file("proc/meminfo", "MemAvailable:  200000 kB"), "memory", check.Warning, "195 MB", "50 MB"},
		"unknown memory":   {file("proc/meminfo", ""), "memory", check.Warning, "cannot be told", ""},
		"ports overlap":    {file("proc/sys/net/ipv4/ip_local_port_range", "1024\t65535"), "local ports", check.Warning, "may be given the ports 1024 to 65535", "ip_local_reserved_ports"},
		"few ports":        {file("proc/sys/net/ipv4/ip_local_port_range", "60000\t60999"), "local ports", check.Warning, "1000 ports", "32768 60999"},
		"strict paths":     {file("proc/sys/net/ipv4/conf/all/rp_filter", "1"), "rp_filter", check.Warning, "net.ipv4.conf.all.rp_filter is strict", "rp_filter=2"},
		"no envoy":         {func(_ *testing.T, s *check.System) { s.Envoy = "envoy-is-not-there" }, "envoy", check.Failure, "envoy-is-not-there", "install Envoy"},
		"no envoy at all": {
			func(t *testing.T, s *check.System) { s.Envoy = program(t, "#!/bin/sh\necho hello") },
			"envoy", check.Failure, "says what no Envoy does: hello", "--envoy",
		},
		"broken envoy": {
			func(t *testing.T, s *check.System) { s.Envoy = program(t, "#!/bin/sh\necho broken library; exit 127") },
			"envoy", check.Failure, "cannot be run: exit status 127: broken library", "another",
		},
		"no nameserver": {func(_ *testing.T, s *check.System) { s.Nameservers = nil }, "resolver", check.Warning, "names no nameserver", "--dns-upstream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := machine(t)
			c.spoil(t, &s)
			all := check.Run(t.Context(), checks(s)...)
			found := of(all, c.part)
			require.Len(t, found, 1, "%v", all)
			requireFinding(t, found[0], c.state, c.says, c.whatToDo)
			require.Equal(t, c.state == check.Failure, check.Failed(all))
		})
	}
}

func room(n uint64) func(string) (uint64, error) {
	return func(string) (uint64, error) { return n, nil }
}

func kernel(release string) func(*testing.T, *check.System) {
	return file("proc/sys/kernel/osrelease", release)
}

func file(path, text string) func(*testing.T, *check.System) {
	return func(t *testing.T, s *check.System) {
		t.Helper()
		write(t, *s, path, text)
	}
}

func program(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "envoy")
	require.NoError(t, os.WriteFile(path, []byte(script+"\n"), 0o700))
	_, err := exec.LookPath(path)
	require.NoError(t, err)
	return path
}

func TestWrite(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	require.NoError(t, check.Write(&b, []check.Finding{
		{Part: "clock", State: check.OK, Says: "synchronized"},
		{Part: "shared memory", State: check.Failure, Says: "none", Do: "mount it"},
	}))
	require.Equal(t, "ok       clock          synchronized\nfailure  shared memory  none\n                        → mount it\n", b.String())
}

func TestTrial(t *testing.T) {
	t.Parallel()
	c := check.Trial("redirection", "can be", "leave it out", func(context.Context) error { return errors.New("there is no nft in PATH") })
	requireFinding(t, only(t, c), check.Failure, "there is no nft in PATH", "leave it out")
	c = check.Trial("redirection", "can be", "leave it out", func(context.Context) error { return nil })
	requireFinding(t, only(t, c), check.OK, "can be", "")
}
