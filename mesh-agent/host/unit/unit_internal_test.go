package unit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The output of systemctl cat: a unit and a drop-in.
const files = `# /lib/systemd/system/mesh-agent.service
[Unit]
Description=User=nobody
[Service]
Type=notify
ExecStart=/usr/bin/mesh-agent run \
  --redirect
User=mesh-agent
; LimitCORE=1
LimitNOFILE = 1048576
StateDirectory=mesh-agent mesh:agent
ProtectSystem=strict
AmbientCapabilities=CAP_NET_ADMIN
RestartSec=1s
[Install]
WantedBy=multi-user.target

# /etc/systemd/system/mesh-agent.service.d/own.conf
[Service]
User=
User=other
AmbientCapabilities=
`

func TestWhatCountsOfAUnit(t *testing.T) {
	t.Parallel()
	u := Unit{"mesh-agent.service", serviceSettings(files)}
	require.Equal(t, "other", u.Account())
	require.Equal(t, []string{
		"User=mesh-agent", "LimitNOFILE=1048576", "ReadWritePaths=-/var/lib/mesh-agent", "ReadWritePaths=-/var/lib/mesh", "ProtectSystem=strict",
		"AmbientCapabilities=CAP_NET_ADMIN", "User=", "User=other", "AmbientCapabilities=",
	}, u.properties())
	require.Equal(t, "root", (&Unit{}).Account())
}

func TestThereMayBeNoUnit(t *testing.T) {
	t.Parallel()
	_, err := Find(t.Context(), "there-is-no-such.service")
	require.ErrorIs(t, err, ErrNone)
}
