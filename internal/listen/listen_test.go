package listen

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlaintextNeedsAFlag(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		plaintext Plaintext
		address   string
		refusal   string
	}{
		"not asked for":                     {Plaintext{}, "127.0.0.1:0", "asked for with --insecure"},
		"every address":                     {Plaintext{Allowed: true}, ":0", "--insecure-any-address"},
		"a public address":                  {Plaintext{Allowed: true}, "192.0.2.1:0", "--insecure-any-address"},
		"loopback":                          {Plaintext{Allowed: true}, "127.0.0.1:0", ""},
		"loopback by name":                  {Plaintext{Allowed: true}, "localhost:0", ""},
		"every address, asked for by name":  {Plaintext{Allowed: true, AnyAddress: true}, ":0", ""},
		"the second flag alone is not a go": {Plaintext{AnyAddress: true}, "127.0.0.1:0", "asked for with --insecure"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := tt.plaintext.TCP("listen", tt.address)
			if tt.refusal != "" {
				require.ErrorContains(t, err, tt.refusal)
				return
			}
			require.NoError(t, err)
			require.NoError(t, l.Close())
		})
	}
}

func TestPortInUseErrorNamesTheFlag(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()

	_, err = TCP("http", taken.Addr().String())

	require.ErrorContains(t, err, taken.Addr().String())
	require.ErrorContains(t, err, "choose another address with --http")
}

func TestNobodyListensOnAllAddressesByMistake(t *testing.T) {
	t.Parallel()
	for _, open := range []func() error{
		func() error { _, err := TCP("http", ""); return err },
		func() error { _, err := Plaintext{Allowed: true, AnyAddress: true}.TCP("http", ""); return err },
		func() error { _, err := Plaintext{}.Server("http", "", Secure); return err },
	} {
		require.ErrorContains(t, open(), "--http is empty: give an address as host:port")
	}
}

func TestServerNeedsTLSOrInsecure(t *testing.T) {
	t.Parallel()
	_, err := Plaintext{}.Server("listen", "127.0.0.1:0", Insecure)
	require.ErrorContains(t, err, "--listen 127.0.0.1:0: give --tls-cert and --tls-key; or add --insecure")
	_, err = Plaintext{Allowed: true}.Server("listen", "127.0.0.1:0", Secure)
	require.ErrorIs(t, err, ErrSecure)
	_, err = Plaintext{Allowed: true}.Server("listen", ":0", Insecure)
	require.ErrorContains(t, err, "--insecure-any-address")
	for _, secure := range []bool{true, false} {
		l, err := Plaintext{Allowed: !secure}.Server("listen", "127.0.0.1:0", SecureIf(secure))
		require.NoError(t, err)
		require.NoError(t, l.Close())
	}
	l, err := Plaintext{}.Server("listen", ":0", Secure)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

func TestCheckPeer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		plaintext Plaintext
		address   string
		refusal   string
	}{
		"loopback":           {Plaintext{Allowed: true}, "127.0.0.1:1", ""},
		"elsewhere":          {Plaintext{Allowed: true}, "mesh.example.com:1", "--insecure alone is for servers on loopback"},
		"elsewhere, wanted":  {Plaintext{Allowed: true, AnyAddress: true}, "mesh.example.com:1", ""},
		"TLS":                {Plaintext{}, "mesh.example.com:1", ""},
		"without a port":     {Plaintext{}, "mesh.example.com", "write it as host:port"},
		"without any server": {Plaintext{}, "", "write it as host:port"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tt.plaintext.CheckPeer(tt.address)
			if tt.refusal == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.refusal)
		})
	}
}
