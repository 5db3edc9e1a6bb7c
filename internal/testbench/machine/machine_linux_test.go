package machine_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/machine"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
)

func TestMachinesAreTheirOwn(t *testing.T) {
	t.Parallel()
	network := netns.NewSwitch(t)
	one, other := machine.Boot(t, network.Machine(t), "one"), machine.Boot(t, network.Machine(t), "other")

	require.Equal(t, "one\n", one.Type("hostname"))
	require.Contains(t, one.Type("ip -4 addr show eth0"), one.IPv4.String())
	one.Type("echo it > /etc/only-there && echo it > /tmp/only-there")
	_, err := other.Try("cat /etc/only-there")
	require.ErrorContains(t, err, "No such file")
	_, err = os.Stat("/etc/only-there")
	require.ErrorIs(t, err, os.ErrNotExist)
	content, err := os.ReadFile(one.Path("/tmp/only-there"))
	require.NoError(t, err)
	require.Equal(t, "it\n", string(content))

	one.Write("/etc/systemd/system/greeter.service", []byte("[Service]\nExecStart=/usr/bin/python3 -m http.server 8000\nDynamicUser=yes\nProtectSystem=strict\n"), 0o644)
	one.Type("systemctl daemon-reload && systemctl start greeter")
	require.Equal(t, "active\n", one.Type("systemctl is-active greeter"))
	_, err = other.Try("systemctl is-active greeter")
	require.ErrorContains(t, err, "inactive")
}

func TestMachinesEndWithTheirTest(t *testing.T) {
	var path string
	t.Run("inside", func(t *testing.T) { path = machine.Boot(t, netns.New(t), "short").Path("/") })
	if path != "" { // the test inside was not skipped
		_, err := os.Stat(path)
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}
