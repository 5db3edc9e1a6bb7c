package listen

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlaintextHasToBeAskedFor(t *testing.T) {
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

func TestAPortInUseIsNamedWithItsFlag(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()

	_, err = TCP("http", taken.Addr().String())

	require.ErrorContains(t, err, taken.Addr().String())
	require.ErrorContains(t, err, "choose another address with --http")
}
