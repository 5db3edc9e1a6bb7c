package zookeeper_test

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	registries "github.com/pgmesh/pgmesh/registry/open"
	"github.com/pgmesh/pgmesh/registry/zookeeper"
)

func TestSettingsAreRefusedWithWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	empty, two := filepath.Join(folder, "empty"), filepath.Join(folder, "two")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	require.NoError(t, os.WriteFile(two, []byte("a:b\nc:d\n"), 0o600))
	for address, wrong := range map[string]string{
		"zookeeper:///services":                       "it names no server: write zookeeper://127.0.0.1:2181",
		"zookeeper://reader:secret@127.0.0.1/":        "credentials do not belong into a URL",
		"zookeeper://one,:2181/":                      `":2181" is no address of a server`,
		"zookeeper://one,two:99999/":                  `"two:99999" is no address of a server`,
		"zookeeper://127.0.0.1/?paths=/services":      `there is no parameter paths: did you mean "path"?`,
		"zookeeper://127.0.0.1/?token=x":              "there is no parameter token: there are digest-file, domain,",
		"zookeeper://127.0.0.1/?name=a&name=b":        "name is given twice",
		"zookeeper://127.0.0.1/?name=A_1":             `"A_1" cannot be the name of a registry`,
		"zookeeper://127.0.0.1/?namespace=A":          `"A" cannot be a namespace of the mesh`,
		"zookeeper://127.0.0.1/?domain=a..b":          `"a..b" cannot be what hosts end with`,
		"zookeeper://127.0.0.1/?format=json":          `format: "json" is neither curator`,
		"zookeeper://127.0.0.1/?path=services":        `path is "services", and has to be that of a node`,
		"zookeeper://127.0.0.1/?path=/a/../b":         `path is "/a/../b", and has to be that of a node`,
		"zookeeper://127.0.0.1/?path=/a//b":           `path is "/a//b", and has to be that of a node`,
		"zookeeper://127.0.0.1/?path=/":               "services cannot be directly below /",
		"zookeeper://127.0.0.1/a//b":                  "ZooKeeper's chroot,",
		"zookeeper://127.0.0.1/?protocol=smtp":        `protocol: "smtp" is no protocol`,
		"zookeeper://127.0.0.1/?port=0":               `port: "0" is no number from 1 to 65535`,
		"zookeeper://127.0.0.1/?watches=10":           `watches: "10" is neither one`,
		"zookeeper://127.0.0.1/?timeout=1h":           `timeout: "1h" is no time from 100ms to 1m`,
		"zookeeper://127.0.0.1/?tls=perhaps":          `tls: "perhaps" is neither true nor false`,
		"zookeeper://127.0.0.1/?tls-cert=x":           "a certificate and its key belong together: give tls-cert and tls-key",
		"zookeeper://127.0.0.1/?tls-ca=/nowhere":      "no such file",
		"zookeeper://127.0.0.1/?digest-file=/nowhere": "no such file",
		"zookeeper://127.0.0.1/?digest-file=" + empty: "there has to be one line user:password in " + empty,
		"zookeeper://127.0.0.1/?digest-file=" + two:   "there has to be one line user:password in " + two,
		"zookeeper://127.0.0.1/?path=%zz":             "its parameters cannot be read",
	} {
		at, err := url.Parse(address)
		require.NoError(t, err)
		_, err = zookeeper.Open(at, reload.Options{})
		require.ErrorContains(t, err, wrong, address)
	}
}

// What ZooKeeper's own clients take for its addresses is taken here, too.
func TestTheWaysToNameServers(t *testing.T) {
	t.Parallel()
	for address, name := range map[string]string{
		"zookeeper://127.0.0.1":                            "zookeeper",
		"zookeeper://one:2181,two:2182,three:2183/mesh":    "zookeeper",
		"zookeeper://one,two/mesh?path=/":                  "zookeeper",
		"zookeeper://[::1]:2181/?name=another":             "another",
		"zookeeper://one:2181/?path=/dubbo":                "dubbo",
		"zookeeper://one:2181/?path=/a/b&format=dubbo":     "dubbo",
		"zookeeper://one:2181/?path=/dubbo&format=curator": "zookeeper",
	} {
		all, err := registries.All([]string{address}, reload.Options{})
		require.NoError(t, err, address)
		require.Equal(t, name, all[0].Name(), address)
	}
}
