package kubernetes_test

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/registry/kubernetes"
)

func TestSettingsAreRefusedWithWhatWouldBeRight(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for address, wrong := range map[string]string{
		"kubernetes://10.0.0.1:6443":               "where a cluster is stands in a kubeconfig: write kubernetes:///etc/pgmesh/kubeconfig",
		"kubernetes:":                              "this is no Pod of a cluster",
		"kubernetes://":                            "this is no Pod of a cluster (KUBERNETES_SERVICE_HOST",
		"kubernetes:///?context=a":                 "context: a Pod has none",
		"kubernetes:///x?contxt=a":                 `there is no parameter contxt: did you mean "context"?`,
		"kubernetes:///x?token=a":                  "there is no parameter token: there are addresses, config, context, domain,",
		"kubernetes:///x?name=a&name=b":            "name is given twice",
		"kubernetes:///x?name=Prod":                `"Prod" cannot be the name of a registry`,
		"kubernetes:///x?namespaces=a,,b":          `namespaces: "" is no name of a namespace`,
		"kubernetes:///x?pods=perhaps":             `pods: "perhaps" is neither true nor false`,
		"kubernetes:///x?timeout=1h":               `timeout: "1h" is no time from 100ms to 1m`,
		"kubernetes:///x?services=no":              `"no" is neither true nor false`,
		"kubernetes:///x?services=false&config=0":  "it reads neither services nor config",
		"kubernetes:///x?name=%zz":                 "its parameters cannot be read",
		"kubernetes:///nowhere":                    "kubeconfig: open /nowhere: no such file",
		"kubernetes://" + empty:                    "the kubeconfig has no current context",
		"kubernetes:///x?namespaces=a&domain=a..b": `domain: "a..b" is no name of DNS`,
		"kubernetes:///x?trust-domain=A/b":         `trust-domain: "A/b" is no name of DNS`,
		"kubernetes:///x?secrets=a,":               `secrets: "" is no name of a namespace`,
	} {
		at, err := url.Parse(address)
		require.NoError(t, err)
		_, err = kubernetes.Open(at, reload.Options{})
		require.ErrorContains(t, err, wrong, address)
	}
}
