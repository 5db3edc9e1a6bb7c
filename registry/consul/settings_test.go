package consul_test

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/registry/consul"
)

func TestSettingsAreRefusedWithWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	for address, wrong := range map[string]string{
		"consul:///":                               "it names no agent: write consul://127.0.0.1:8500",
		"consul://secret@127.0.0.1/":               "a token does not belong into a URL",
		"consul://127.0.0.1/?datacenter=dc1":       "there is no parameter datacenter: there are dc, domain,",
		"consul://127.0.0.1/?token-fil=x":          `there is no parameter token-fil: did you mean "token-file"?`,
		"consul://127.0.0.1/?name=a&name=b":        "name is given twice",
		"consul://127.0.0.1/?name=Consul_1":        `"Consul_1" cannot be the name of a registry`,
		"consul://127.0.0.1/?into=A":               `"A" cannot be a namespace of the mesh`,
		"consul://127.0.0.1/?dc=*&dc=dc1":          `"*" means all datacenters`,
		"consul://127.0.0.1/?watches=many":         `watches: "many" is no number from 0 to 50000`,
		"consul://127.0.0.1/?port=70000":           `port: "70000" is no number from 1 to 65535`,
		"consul://127.0.0.1/?timeout=1h":           `timeout: "1h" is no time from 100ms to 1m`,
		"consul://127.0.0.1/?only-passing=perhaps": `only-passing: "perhaps" is neither true nor false`,
		"consul://127.0.0.1/?hosts=long":           `hosts: "long" is none of short`,
		"consul://127.0.0.1/?tls-cert=x":           "a certificate and its key belong together: give tls-cert and tls-key",
		"consul://127.0.0.1/?tls-ca=/nowhere":      "no such file",
		"consul://127.0.0.1/?token-file=/nowhere":  "no such file",
		"consul://127.0.0.1/?token-file=" + empty:  "there is no token in " + empty,
		"consul://127.0.0.1/?dc=%zz":               "its parameters cannot be read",
	} {
		at, err := url.Parse(address)
		require.NoError(t, err)
		_, err = consul.Open(at, reload.Options{})
		require.ErrorContains(t, err, wrong, address)
	}
}

func TestTheNameFollowsFromTheDatacenter(t *testing.T) {
	t.Parallel()
	for parameters, name := range map[string]string{
		"": "consul", "dc=dc_1": "consul-dc-1", "dc=*": "consul", "dc=a&dc=b": "consul", "dc=dc1&name=other": "other",
	} {
		require.Equal(t, name, open(t, "127.0.0.1", parameters).Name(), parameters)
	}
}
