package kubeconfig_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/registry/kubernetes/kubeconfig"
)

// write writes a kubeconfig with a cluster and a user, beside files.
func write(t *testing.T, cluster, user string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	certtest.WriteFile(t, path, fmt.Appendf(nil, `
current-context: a
contexts:
- {name: a, context: {cluster: one, user: me, namespace: ignored}}
- {name: b, context: {cluster: other, user: me}}
- {name: c, context: {cluster: one, user: other}}
clusters:
- {name: one, cluster: %s}
users:
- {name: me, user: %s}
`, cluster, user))
	return path
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	const one, me = `{server: "https://10.0.0.1:6443"}`, `{token: t}`
	for _, tt := range []struct{ cluster, user, context, says string }{
		{one, `{exec: {command: aws}}`, "", "its user gets credentials by running a program (exec), and no program is run here"},
		{one, `{auth-provider: {name: gcp}}`, "", "auth-provider"},
		{one, `{username: a, password: b}`, "", "a password"},
		{`{server: "https://a", insecure-skip-tls-verify: true}`, me, "", "does not verify the cluster"},
		{`{server: "https://a", proxy-url: "http://p"}`, me, "", "proxy-url"},
		{`{server: "10.0.0.1:6443"}`, me, "", `"10.0.0.1:6443" is no address of a cluster: write server as https://HOST:PORT`},
		{`{server: "https://a:b@c"}`, me, "", "has a password in it"},
		{one, me, "aa", `the kubeconfig has no context "aa": did you mean "a"?`},
		{one, me, "b", `the context b names the cluster "other", which the kubeconfig has not`},
		{one, me, "c", `the context c names the user "other", whom the kubeconfig has not`},
		{one, `{tokenFile: nowhere}`, "", "token for Kubernetes: open "},
		{one, `{token: "a b"}`, "", "more than a token"},
		{one, `{client-certificate-data: "%%"}`, "", "it cannot be read as YAML"},
		{one, `{client-certificate-data: aGVsbG8=}`, "", "a certificate and its key belong together"},
		{one, `{client-certificate-data: aGVsbG8=, client-key-data: aGVsbG8=}`, "", "certificate for Kubernetes: tls: failed to find any PEM data"},
		{`{server: "https://a", certificate-authority-data: aGVsbG8=}`, me, "", "authority of Kubernetes: there is no certificate in it"},
		{`[`, me, "", "it is no kubeconfig"},
	} {
		_, err := kubeconfig.Load(reload.Options{}, write(t, tt.cluster, tt.user), tt.context)
		require.ErrorContains(t, err, tt.says)
		require.NotContains(t, err.Error(), "aGVsbG8", "keys are not told")
	}
}

func authorization(t *testing.T, a *kubeconfig.Access) string {
	t.Helper()
	h := http.Header{}
	require.NoError(t, a.Authorize(h))
	return h.Get("Authorization")
}

// Tokens and certificates change while a program runs, and so does the kubeconfig.
func TestFilesAreReadAgain(t *testing.T) {
	t.Parallel()
	authority := certtest.NewAuthority(t)
	path := write(t, `{server: "https://10.0.0.1:6443/prefix", certificate-authority: ca.pem, tls-server-name: kubernetes}`, `{tokenFile: token}`)
	folder := filepath.Dir(path)
	certtest.WriteFile(t, filepath.Join(folder, "ca.pem"), authority.PEM)
	certtest.WriteFile(t, filepath.Join(folder, "token"), []byte("first\n"))
	access, err := kubeconfig.Load(reload.Options{}, path, "")
	require.NoError(t, err)
	require.Equal(t, "https://10.0.0.1:6443/prefix", access().Server.String())
	require.Equal(t, "kubernetes", access().TLS().ServerName)
	require.True(t, access().TLS().RootCAs.Equal(authority.Pool()))
	require.Equal(t, "Bearer first", authorization(t, access()))
	until := func(want string) {
		t.Helper()
		poll.Eventually(t, func(context.Context) error {
			if authorization(t, access()) != want {
				return errors.New("there is no " + want)
			}
			return nil
		})
	}
	certtest.WriteFile(t, filepath.Join(folder, "token"), []byte("second"))
	until("Bearer second")
	certtest.WriteFile(t, filepath.Join(folder, "token"), nil)
	changed, err := os.ReadFile(write(t, `{server: "https://10.0.0.2:6443"}`, `{token: third}`))
	require.NoError(t, err)
	certtest.WriteFile(t, path, changed)
	until("Bearer third")
	require.Equal(t, "10.0.0.2:6443", access().Server.Host)
	certtest.WriteFile(t, path, []byte("no kubeconfig"))
	require.Equal(t, "Bearer third", authorization(t, access()))
}

func TestWhatStandsInAKubeconfig(t *testing.T) {
	t.Parallel()
	pair := certtest.NewAuthority(t).Issue(nil)
	in := base64.StdEncoding.EncodeToString
	access, err := kubeconfig.Load(reload.Options{}, write(t, `{server: "https://a"}`, fmt.Sprintf("{client-certificate-data: %s, client-key-data: %s}", in(pair.Cert), in(pair.Key))), "")
	require.NoError(t, err)
	require.Equal(t, pair.Certificate(t).Certificate, access().TLS().Certificates[0].Certificate)
	require.Nil(t, access().TLS().RootCAs, "those of the machine count")
	require.Empty(t, authorization(t, access()))
}

func TestATokenIsNotSentInPlaintext(t *testing.T) {
	t.Parallel()
	access, err := kubeconfig.Load(reload.Options{}, write(t, `{server: "http://127.0.0.1:8001"}`, `{token: t}`), "")
	require.NoError(t, err)
	require.ErrorContains(t, access().Authorize(http.Header{}), "a token is sent over TLS alone")
}

func TestAPod(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	certtest.WriteFile(t, filepath.Join(folder, "ca.crt"), certtest.NewAuthority(t).PEM)
	certtest.WriteFile(t, filepath.Join(folder, "token"), []byte("mine"))
	access, err := kubeconfig.Pod{Host: "fd00::1", Port: "443", Folder: folder}.Load(reload.Options{})
	require.NoError(t, err)
	require.Equal(t, "https://[fd00::1]:443", access().Server.String())
	require.Equal(t, "Bearer mine", authorization(t, access()))
	require.NotNil(t, access().TLS().RootCAs)
}
