package claim_test

import (
	"bytes"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/host/dns/claim"
)

const original = "# made by hand\nnameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch a.example\noptions ndots:2 rotate\n"

var (
	plain  = claim.Claim{Mode: claim.ResolvConf, Server: netip.MustParseAddrPort("127.0.0.1:53")}
	routed = claim.Claim{Mode: claim.Resolved, Server: netip.MustParseAddrPort("127.0.0.1:15053"), Domains: []string{"shop.svc.cluster.local", "~api.example.com"}}
)

// machine is a machine in a temporary folder.
type machine struct {
	*claim.Machine

	t      *testing.T
	folder string
	log    *bytes.Buffer
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{t: t, folder: t.TempDir(), log: &bytes.Buffer{}}
	m.Machine = &claim.Machine{
		ResolvConf: filepath.Join(m.folder, "etc/resolv.conf"), Run: filepath.Join(m.folder, "run/systemd"),
		Record: filepath.Join(m.folder, "state/dns.json"), Log: slog.New(slog.NewTextHandler(m.log, nil)),
	}
	require.NoError(t, os.MkdirAll(filepath.Join(m.folder, "etc/systemd"), 0o755))
	m.write(original)
	return m
}

func (m *machine) write(content string) {
	m.t.Helper()
	require.NoError(m.t, os.WriteFile(m.ResolvConf, []byte(content), 0o640))
}

func (m *machine) read() string {
	m.t.Helper()
	content, err := os.ReadFile(m.ResolvConf)
	require.NoError(m.t, err)
	return string(content)
}

func (m *machine) apply(c claim.Claim) bool {
	m.t.Helper()
	changed, err := m.Apply(c)
	require.NoError(m.t, err)
	return changed
}

func (m *machine) restore() string {
	m.t.Helper()
	did, err := m.Restore()
	require.NoError(m.t, err)
	return did
}

func TestApplyAndRestoreResolvConf(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	require.Empty(t, m.restore(), "there is nothing to take back")
	require.False(t, m.Applied())
	require.True(t, m.apply(plain))
	require.True(t, m.Applied())
	ours := m.read()
	require.Equal(t, "# mesh-agent: the line below asks for the names of the mesh; it is taken out by `mesh-agent dns restore`.\nnameserver 127.0.0.1\n"+
		"# made by hand\nnameserver 192.0.2.1\nnameserver 192.0.2.2\nsearch a.example\noptions ndots:2\n", ours, "who takes turns would miss the mesh every other time")
	require.False(t, m.apply(plain), "once is enough")
	require.Equal(t, ours, m.read())
	kept, err := os.ReadFile(m.ResolvConf + ".before-mesh-agent")
	require.NoError(t, err)
	require.Equal(t, original, string(kept))

	require.Contains(t, m.restore(), "is as it was")
	require.Equal(t, original, m.read())
	info, err := os.Stat(m.ResolvConf)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o640), info.Mode().Perm())
	left, err := filepath.Glob(filepath.Join(m.folder, "*/*"))
	require.NoError(t, err)
	require.Equal(t, []string{m.ResolvConf, filepath.Join(m.folder, "etc/systemd")}, left, "nothing is left behind")
	require.Empty(t, m.restore())
	require.Empty(t, m.log)
}

func TestNextAgentTakesOver(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.apply(plain)
	other := plain
	other.Server = netip.MustParseAddrPort("127.0.0.55:53")
	require.True(t, m.apply(other), "as after a crash")
	require.Contains(t, m.read(), "nameserver 127.0.0.55\n# made by hand")
	require.NotContains(t, m.read(), "127.0.0.1\n")
	m.restore()
	require.Equal(t, original, m.read())
}

func TestChangesByOthersAreKept(t *testing.T) {
	t.Parallel()
	const theirs = "nameserver 198.51.100.1\n"
	t.Run("anew, and the agent goes on", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.apply(plain)
		m.write(theirs)
		require.True(t, m.apply(plain))
		require.True(t, strings.HasSuffix(m.read(), "nameserver 127.0.0.1\n"+theirs))
		require.Contains(t, m.log.String(), "somebody else has changed")
		m.restore()
		require.Equal(t, theirs, m.read())
	})
	t.Run("anew, and the agent ends", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.apply(plain)
		m.write(theirs)
		require.Contains(t, m.restore(), "was written anew by somebody else, and is left as it is")
		require.Equal(t, theirs, m.read())
		require.False(t, m.Applied())
	})
	t.Run("in part, and the agent ends", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.apply(plain)
		m.write(m.read() + "options edns0\n")
		require.Contains(t, m.restore(), "our line is out of it, and the rest is as they left it")
		require.Equal(t, strings.Replace(original, " rotate", "", 1)+"options edns0\n", m.read())
	})
	t.Run("by removing it", func(t *testing.T) {
		t.Parallel()
		m := newMachine(t)
		m.apply(plain)
		require.NoError(t, os.Remove(m.ResolvConf))
		require.Contains(t, m.restore(), "is gone; its original is in "+m.ResolvConf+".before-mesh-agent")
	})
}

func TestMissingFileOrRecord(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.apply(plain)
	require.NoError(t, os.RemoveAll(filepath.Dir(m.Record)))
	require.Contains(t, m.restore(), "our line is out of it")
	require.NotContains(t, m.read(), "mesh-agent")

	m = newMachine(t)
	require.NoError(t, os.Remove(m.ResolvConf))
	m.apply(plain)
	require.Contains(t, m.read(), "nameserver 127.0.0.1\n")
	m.restore()
	require.Empty(t, m.read(), "as resolvers take one that is not there")

	m = newMachine(t)
	require.NoError(t, os.MkdirAll(filepath.Dir(m.Record), 0o700))
	require.NoError(t, os.WriteFile(m.Record, []byte("{"), 0o600))
	_, err := m.Apply(plain)
	require.ErrorContains(t, err, m.Record)
	require.Equal(t, original, m.read())
}

func TestLinksAreNotChanged(t *testing.T) {
	t.Parallel()
	for target, advice := range map[string]string{
		"../run/NetworkManager/resolv.conf":       "which NetworkManager writes: let NetworkManager leave it alone (dns=none",
		"/run/resolvconf/resolv.conf":             "/etc/resolvconf/resolv.conf.d/head",
		"../run/systemd/resolve/stub-resolv.conf": "--dns resolved is for that",
		"elsewhere": "have them name the resolver, or make it a file",
	} {
		m := newMachine(t)
		require.NoError(t, os.Remove(m.ResolvConf))
		require.NoError(t, os.Symlink(target, m.ResolvConf))
		_, err := m.Choose(claim.ResolvConf)
		require.ErrorContains(t, err, advice)
		_, err = m.Apply(plain)
		require.ErrorContains(t, err, advice)
		to, err := os.Readlink(m.ResolvConf)
		require.NoError(t, err)
		require.Equal(t, target, to)
		mode, err := m.Choose(claim.Auto)
		require.NoError(t, err)
		require.Equal(t, claim.Serve, mode)
		require.Contains(t, m.log.String(), "programs on this machine are not told")
	}
}

func TestResolvConfTakesNoPorts(t *testing.T) {
	t.Parallel()
	m, c := newMachine(t), plain
	c.Server = netip.MustParseAddrPort("127.0.0.1:15053")
	_, err := m.Apply(c)
	require.ErrorContains(t, err, "cannot name a port")
	require.Equal(t, original, m.read())
}

// systemctl puts a fake systemctl in the path that records its calls: no test can start systemd.
func (m *machine) systemctl(version string) (calls func() string) {
	m.t.Helper()
	bin, noted := filepath.Join(m.folder, "bin"), filepath.Join(m.folder, "calls")
	require.NoError(m.t, os.MkdirAll(bin, 0o755))
	script := "#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'systemd " + version + "'; else echo \"$@\" >>" + noted + "; fi\n"
	require.NoError(m.t, os.WriteFile(filepath.Join(bin, "systemctl"), []byte(script), 0o755))
	m.t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return func() string {
		content, _ := os.ReadFile(noted)
		os.Remove(noted)
		return string(content)
	}
}

// resolved gives the machine systemd-resolved.
func (m *machine) resolved() {
	m.t.Helper()
	folder := filepath.Join(m.Run, "resolve")
	require.NoError(m.t, os.MkdirAll(folder, 0o755))
	require.NoError(m.t, os.WriteFile(filepath.Join(folder, "stub-resolv.conf"), []byte("nameserver 127.0.0.53\n"), 0o644))
	require.NoError(m.t, os.Remove(m.ResolvConf))
	require.NoError(m.t, os.Symlink(filepath.Join(folder, "stub-resolv.conf"), m.ResolvConf))
}

func TestApplyAndRestoreResolved(t *testing.T) {
	m := newMachine(t)
	calls := m.systemctl("252 (252.38)")
	m.resolved()
	mode, err := m.Choose(claim.Auto)
	require.NoError(t, err)
	require.Equal(t, claim.Resolved, mode)
	dropIn := filepath.Join(m.Run, "resolved.conf.d/90-mesh-agent.conf")
	require.NoError(t, os.WriteFile(filepath.Join(m.folder, "etc/systemd/resolved.conf"), []byte("[Resolve]\n#DNS=9.9.9.9\nDNS=198.51.100.9\nDNS=198.51.100.10 198.51.100.11\n"), 0o644))

	require.True(t, m.apply(routed))
	require.Equal(t, "restart systemd-resolved.service\n", calls())
	content, err := os.ReadFile(dropIn)
	require.NoError(t, err)
	require.Contains(t, string(content), "[Resolve]\nDNS=\nDNS=127.0.0.1:15053 198.51.100.9 198.51.100.10 198.51.100.11\nDomains=shop.svc.cluster.local ~api.example.com\n")
	require.False(t, m.apply(routed))
	require.Empty(t, calls())

	other := routed
	other.Domains = []string{claim.Everything}
	other.Others = claim.IPs([]netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("127.0.0.53:53"), netip.MustParseAddrPort("192.0.2.2:5353")})
	require.True(t, m.apply(other))
	require.Equal(t, "reload-or-restart systemd-resolved.service\n", calls(), "it keeps what it knows if it can")
	content, err = os.ReadFile(dropIn)
	require.NoError(t, err)
	require.Contains(t, string(content), "198.51.100.11 192.0.2.1\nDomains=~.\n", "who asks us for everything has somebody to ask without us")

	require.Contains(t, m.restore(), "systemd-resolved asks as before")
	require.Equal(t, "reload-or-restart systemd-resolved.service\n", calls())
	_, err = os.Stat(dropIn)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.False(t, m.Applied())

	m.apply(routed)
	require.NoError(t, os.Remove(m.Record))
	m.restore()
	_, err = os.Stat(dropIn)
	require.ErrorIs(t, err, fs.ErrNotExist, "though the record is lost")
}

func TestChangeOfModeRestores(t *testing.T) {
	m := newMachine(t)
	calls := m.systemctl("252")
	m.apply(plain)
	m.apply(routed)
	require.Equal(t, original, m.read())
	calls()
	m.apply(plain)
	require.Equal(t, "reload-or-restart systemd-resolved.service\n", calls())
	require.Contains(t, m.read(), "nameserver 127.0.0.1\n")
}

func TestOldResolvedTakesNoPorts(t *testing.T) {
	m := newMachine(t)
	calls := m.systemctl("245 (245.4-4ubuntu3)")
	_, err := m.Apply(routed)
	require.ErrorContains(t, err, "--dns-listen 127.0.0.54:53")
	c := routed
	c.Server = netip.MustParseAddrPort("127.0.0.54:53")
	require.True(t, m.apply(c))
	require.Equal(t, "restart systemd-resolved.service\n", calls())
	content, err := os.ReadFile(filepath.Join(m.Run, "resolved.conf.d/90-mesh-agent.conf"))
	require.NoError(t, err)
	require.Contains(t, string(content), "DNS=127.0.0.54\n")
}

func TestModes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"off", "serve", "resolved", "resolv.conf", "auto"} {
		mode, err := claim.ParseMode(text)
		require.NoError(t, err)
		require.Equal(t, text, string(mode))
	}
	_, err := claim.ParseMode("resolve")
	require.EqualError(t, err, `--dns resolve: did you mean "resolved"?`)
	_, err = claim.ParseMode("yes please")
	require.ErrorContains(t, err, "expected one of off, serve, resolved, resolv.conf, auto")

	m := newMachine(t)
	_, err = m.Choose(claim.Resolved)
	require.ErrorContains(t, err, "systemd-resolved is not what programs here ask")
	for _, same := range []claim.Mode{claim.Off, claim.Serve, claim.ResolvConf} {
		mode, err := m.Choose(same)
		require.NoError(t, err)
		require.Equal(t, same, mode)
	}
	mode, err := m.Choose(claim.Auto)
	require.NoError(t, err)
	require.Equal(t, claim.ResolvConf, mode)
}

func TestDomainsCoverEachOther(t *testing.T) {
	t.Parallel()
	mesh := []string{"shop.svc.cluster.local", "svc.cluster.local", "cluster.local"}
	require.Equal(t, append(mesh, "~wild.example", "~api.example.com"), claim.Domains(mesh, []string{
		"reviews.shop.svc.cluster.local", "x.api.example.com", "api.example.com", "*.wild.example", "*.deep.wild.example", "a.wild.example",
	}))
	var many []string
	for n := range 300 {
		many = append(many, strings.Repeat("x", n%60+1)+string(rune('a'+n/60))+".example")
	}
	require.Equal(t, append(mesh, "~."), claim.Domains(mesh, many))
}
