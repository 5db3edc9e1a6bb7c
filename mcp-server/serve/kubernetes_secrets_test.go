package serve_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/internal/testbench/poll"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// lend makes a certificate with its key a Secret of a cluster that gateways may have.
func lend(c *kubetest.Cluster, namespace string, p certtest.Pair) {
	c.Namespace(namespace)
	c.Apply("/api/v1/namespaces/"+namespace+"/secrets/gate", kubetest.Object{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": map[string][]byte{"tls.crt": p.Cert, "tls.key": p.Key},
		"metadata": kubetest.Object{"name": "gate", "labels": kubetest.Object{"mesh.pgmesh.io/service-account": "gate"}},
	})
}

func lending(c *kubetest.Cluster) serve.Registries {
	return serve.Registries{URLs: []string{"kubernetes://" + c.Kubeconfig(c.Address, c.Admin()) + "?services=false&config=false&timeout=500ms&secrets=shop,other"}, Wait: time.Minute}
}

// inFiles reports whether a text is in a file of a folder, as it is or as the file would have it.
func inFiles(t *testing.T, folder, text string) bool {
	t.Helper()
	found := false
	require.NoError(t, filepath.WalkDir(folder, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		found = found || bytes.Contains(content, []byte(text))
		return err
	}))
	return found
}

func TestSecretsOfKubernetesAreForThoseWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	c, state := kubetest.Start(t), t.TempDir()
	var shop certtest.Pair
	var options serve.Options
	f := startSecure(t, func(o *serve.Options) {
		authority := certtest.NewAuthority(t)
		shop = authority.Issue(nil)
		lend(c, "shop", shop)
		lend(c, "other", authority.Issue(nil))
		o.Sealing.KeyFile, o.Registries, o.StateDir = keyFile(t), lending(c), state
		o.Security.Allow = append(o.Security.Allow, "spiffe://mesh/gateways=read;secrets:shop")
		options = *o
	})
	by := func() map[string]string {
		return connectWithSecrets(t, f.MCP.String(), nil, f.as("spiffe://mesh/gateways")).secrets()
	}
	becomes := func(pair certtest.Pair) { // once the server has heard of the commit
		t.Helper()
		poll.Eventually(t, func(context.Context) error {
			if has := by(); len(has) != 1 || has["shop/gate"] != string(pair.Key) {
				return fmt.Errorf("the gateways have %d secrets, and not this one alone", len(has))
			}
			return nil
		})
	}
	require.Equal(t, map[string]string{"shop/gate": string(shop.Key)}, by())
	require.Empty(t, connectWithSecrets(t, f.MCP.String(), nil, f.as("spiffe://mesh/reader/1")).secrets())
	list, err := adminv1.NewSecretServiceClient(f.dial(f.withToken(f.token("lister", "secrets:shop")))).ListSecrets(t.Context(), &adminv1.ListSecretsRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetSecrets(), 1)
	told := list.GetSecrets()[0]
	require.Equal(t, "kubernetes shop gate", told.GetOrigin()+" "+told.GetNamespace()+" "+told.GetName())
	require.Equal(t, []string{"tls.crt", "tls.key"}, told.GetKeys())
	require.Equal(t, []string{"localhost", "127.0.0.1"}, told.GetNames())
	require.Equal(t, []string{"gate"}, told.GetServiceAccounts())
	require.NotNil(t, told.GetNotAfter())

	// The database's own counts first.
	own := f.authority.Issue(nil)
	_, err = adminv1.NewAdminServiceClient(f.dial(f.withToken(f.token("keeper", "write", "secrets")))).Apply(t.Context(), secretDocument(t, "shop", own))
	require.NoError(t, err)
	becomes(own)
	execute(t, f.database, "SELECT mesh.delete_secret('shop', 'gate')")
	becomes(shop)

	// What was saved has no key that can be read, and serves a server that starts without the cluster.
	f.end()
	planted := strings.Split(string(shop.Key), "\n")[1]
	require.False(t, inFiles(t, state, planted), "a key lies in the clear")
	_, err = os.Stat(filepath.Join(state, "mcp-server.snapshot"))
	require.NoError(t, err)
	require.NotContains(t, f.log.String(), planted)
	require.NotContains(t, f.log.String(), "are not saved")
	c.Kill()
	f.running = launch(t, options)
	require.Equal(t, map[string]string{"shop/gate": string(shop.Key)}, by())
	c.Restart()
}

// Without a key to seal with nothing of a secret is saved, and a server that starts without the
// cluster waits for it.
func TestSecretsOfKubernetesThatAreNotSaved(t *testing.T) {
	t.Parallel()
	c, state := kubetest.Start(t), t.TempDir()
	pair := certtest.NewAuthority(t).Issue(nil)
	lend(c, "shop", pair)
	c.Namespace("other")
	var options serve.Options
	f := startSecure(t, func(o *serve.Options) {
		o.Registries, o.StateDir = lending(c), state
		o.Security.Allow = append(o.Security.Allow, "spiffe://mesh/gateways=read;secrets")
		options = *o
	})
	require.Contains(t, f.log.String(), "secrets of the registry are not saved: if this server starts while the registry is away")
	by := func() map[string]string {
		return connectWithSecrets(t, f.MCP.String(), nil, f.as("spiffe://mesh/gateways")).secrets()
	}
	require.Equal(t, map[string]string{"shop/gate": string(pair.Key)}, by())
	f.end()
	require.False(t, inFiles(t, state, "gate"), "something of it was saved")
	c.Kill()
	f.running = launch(t, options)
	f.ready(503, "waiting for what these registries have: kubernetes")
	c.Restart()
	require.Equal(t, map[string]string{"shop/gate": string(pair.Key)}, by())

	relay := options
	relay.Database, relay.Upstream = "", serve.Upstream{Addresses: []string{f.MCP.String()}}
	require.ErrorContains(t, serve.Run(t.Context(), relay, nil), "secrets: a relay serves nobody secrets: leave it out")
}
