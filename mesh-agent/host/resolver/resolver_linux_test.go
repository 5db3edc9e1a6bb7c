package resolver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/agenttest"
)

var addresses atomic.Int32

// ownAddress is one of loopback that no other test has.
func ownAddress() string { return fmt.Sprintf("127.54.%d.%d:15054", os.Getpid()%250, addresses.Add(1)) }

func TestAgentConfiguresTheMachinesDNS(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may listen on port 53")
	}
	folder := t.TempDir()
	path, state := filepath.Join(folder, "resolv.conf"), filepath.Join(folder, "state")
	const before = "nameserver 192.0.2.1\nsearch a.example\n"
	require.NoError(t, os.WriteFile(path, []byte(before), 0o644))
	a := agenttest.StartInsecure(t, "--status", "", "--dns", "resolv.conf", "--resolv-conf", path, "--state-dir", state, "--dns-listen", "127.0.0.1:0", "--dns-proxy-listen", ownAddress(), "--dns-upstream", "192.0.2.2")
	line := a.Await(t, "this machine asks the mesh's resolver")
	_, at, _ := strings.Cut(line, "resolver=")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Contains(t, string(content), "nameserver "+strings.TrimSuffix(at, ":53")+"\n"+before)

	said, err := agenttest.Run(t, nil, "dns", "lookup", "localhost", "--dns-listen", at)
	require.NoError(t, err)
	require.Contains(t, said, "localhost. A: 127.0.0.1\nfrom machine: it is this machine")
	require.Contains(t, said, "discovery has not said yet what names the mesh has")
	require.Contains(t, said, "other resolvers: [192.0.2.2:53], search domains: [a.example]")

	said, err = agenttest.Run(t, nil, "dns", "apply", "--dns", "resolv.conf", "--dns-listen", at, "--resolv-conf", path, "--state-dir", state)
	require.NoError(t, err)
	require.Contains(t, said, "asks "+at+" already")

	a.End(t)
	content, err = os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, string(content))
}

func TestNextAgentRestoresDNS(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may listen on port 53")
	}
	const before = "nameserver 192.0.2.1\n"
	for name, after := range map[string]func(t *testing.T, path, state string){
		"by a person": func(t *testing.T, path, state string) {
			t.Helper()
			said, err := agenttest.Run(t, nil, "dns", "restore", "--resolv-conf", path, "--state-dir", state)
			require.NoError(t, err)
			require.Equal(t, path+" is as it was\n", said)
			said, err = agenttest.Run(t, nil, "dns", "restore", "--resolv-conf", path, "--state-dir", state)
			require.NoError(t, err)
			require.Equal(t, "nothing was changed on this machine\n", said)
		},
		"by the next agent": func(t *testing.T, path, state string) {
			t.Helper()
			a := agenttest.StartInsecure(t, "--status", "", "--resolv-conf", path, "--state-dir", state)
			a.Await(t, "names are asked for as before")
			a.End(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			path, state := filepath.Join(folder, "resolv.conf"), filepath.Join(folder, "state")
			require.NoError(t, os.WriteFile(path, []byte(before), 0o644))
			a := agenttest.StartInsecure(t, "--status", "", "--dns", "auto", "--resolv-conf", path, "--state-dir", state, "--dns-listen", "127.0.0.1:0", "--dns-proxy-listen", ownAddress())
			a.Await(t, "this machine asks the mesh's resolver")
			require.NoError(t, a.Process.Kill())
			a.AwaitEndOfLog()
			require.Error(t, a.Wait())
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NotEqual(t, before, string(content))
			after(t, path, state)
			content, err = os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, before, string(content))
		})
	}
}

func TestInvalidDNSFlagsAreExplained(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "resolv.conf")
	require.NoError(t, os.Symlink("/run/NetworkManager/resolv.conf", path))
	run := []string{"run", "--insecure", "--discovery", "127.0.0.1:1", "--state-dir", t.TempDir(), "--dns"}
	for want, args := range map[string][]string{
		`--dns resolve: did you mean "resolved"?`:                         append(run, "resolve"),
		"which NetworkManager writes: let NetworkManager leave it alone":  append(run, "resolv.conf", "--resolv-conf", path),
		"--dns-listen 0.0.0.0:53: a resolver on every address serves the": append(run, "serve", "--dns-listen", "0.0.0.0:53"),
		"--dns serve: a gateway is told no names of the mesh":             append(run, "serve", "--role", "gateway"),
		"--dns-proxy-listen \"127.0.0.1:0\": Envoy is told where to ask":  append(run, "serve", "--dns-proxy-listen", "127.0.0.1:0"),
		"--dns-ttl 48h0m0s: expected a time of up to a day":               append(run, "serve", "--dns-ttl", "48h"),
		"systemd-resolved is not what programs here ask for names":        {"dns", "apply", "--dns", "resolved", "--resolv-conf", "/nowhere"},
		"no resolver is at 127.0.0.1:1": {
			"dns", "lookup", "x", "--dns-listen", "127.0.0.1:1",
		},
	} {
		said, err := agenttest.Run(t, nil, args...)
		require.Error(t, err)
		require.Contains(t, said, want)
	}
}
