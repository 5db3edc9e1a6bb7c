package serve_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-server/identity/seal"
	"github.com/pgmesh/pgmesh/mcp-server/serve"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
	"github.com/pgmesh/pgmesh/store/secrets"
)

// secretDocument is a Secret as people write it.
func secretDocument(t *testing.T, namespace string, p certtest.Pair) *adminv1.ApplyRequest {
	t.Helper()
	content, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": map[string]string{"name": "gate", "namespace": namespace},
		"data": map[string][]byte{"tls.crt": p.Cert}, "stringData": map[string]string{"tls.key": string(p.Key)},
		"serviceAccounts": []string{"gate"},
	})
	require.NoError(t, err)
	return &adminv1.ApplyRequest{Documents: []*adminv1.Document{{Content: content}}}
}

// keyFile makes a file of one key.
func keyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secrets.key")
	require.NoError(t, os.WriteFile(path, []byte(seal.NewLine()+"\n"), 0o600))
	return path
}

// privateKeys are the keys of the secrets that a client was given, by their names.
func (c *client) secrets() map[string]string {
	found := map[string]string{}
	for _, change := range c.next().Changes {
		if change.Key.Kind == kinds.Secret && change.Resource != nil {
			secret := change.Resource.Spec.Message().(*mcpv1.Secret) //nolint:forcetypeassert // else the test fails
			found[change.Key.FullName()] = string(secret.GetData()["tls.key"])
		}
	}
	return found
}

func TestSecretsAreForThoseWhoMaySeeThem(t *testing.T) {
	t.Parallel()
	f := startSecure(t, func(o *serve.Options) {
		o.Sealing.KeyFile = keyFile(t)
		o.Security.Allow = append(o.Security.Allow, "spiffe://mesh/gateways=read;secrets:shop", "spiffe://mesh/all=read;secrets")
	})
	shop, other := f.authority.Issue(nil), f.authority.Issue(nil)
	api := func(options ...string) adminv1.AdminServiceClient {
		return adminv1.NewAdminServiceClient(f.dial(f.withToken(f.token(options[0], options[1:]...))))
	}
	_, err := api("writer", "write").Apply(t.Context(), secretDocument(t, "shop", shop))
	require.Equal(t, codes.PermissionDenied, status.Code(err), "write alone is not enough")
	_, err = api("seer", "read", "secrets").Apply(t.Context(), secretDocument(t, "shop", shop))
	require.Equal(t, codes.PermissionDenied, status.Code(err), "nor is secrets")
	keeper := api("keeper", "write:shop,other", "secrets:shop,other")
	_, err = keeper.Apply(t.Context(), secretDocument(t, "shop", shop))
	require.NoError(t, err)
	_, err = keeper.Apply(t.Context(), secretDocument(t, "other", other))
	require.NoError(t, err)
	again, err := keeper.Apply(t.Context(), secretDocument(t, "other", other))
	require.NoError(t, err)
	require.Equal(t, adminv1.Outcome_ACTION_UNCHANGED, again.GetOutcomes()[0].GetAction())
	mismatch := other
	mismatch.Key = shop.Key
	_, err = keeper.Apply(t.Context(), secretDocument(t, "other", mismatch))
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, "is not the key of the certificate in tls.crt")
	require.NotContains(t, err.Error(), strings.Split(string(shop.Key), "\n")[1])

	require.Equal(t, map[string]string{"shop/gate": string(shop.Key), "other/gate": string(other.Key)},
		connectWithSecrets(t, f.MCP.String(), nil, f.as("spiffe://mesh/all")).secrets())
	require.Equal(t, map[string]string{"shop/gate": string(shop.Key)}, connectWithSecrets(t, f.MCP.String(), nil, f.as("spiffe://mesh/gateways")).secrets())
	require.Empty(t, connectWithSecrets(t, f.MCP.String(), nil, f.as("spiffe://mesh/reader/1")).secrets())
	require.Empty(t, connectWithSecrets(t, f.MCP.String(), nil, f.withToken(f.token("everything", "write"))).secrets())

	list, err := adminv1.NewSecretServiceClient(f.dial(f.withToken(f.token("lister", "secrets:shop")))).ListSecrets(t.Context(), &adminv1.ListSecretsRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetSecrets(), 1)
	told := list.GetSecrets()[0]
	require.Equal(t, []string{"localhost", "127.0.0.1"}, told.GetNames())
	require.Equal(t, []string{"tls.crt", "tls.key"}, told.GetKeys())
	require.True(t, told.GetEncrypted())
	require.Equal(t, "keeper", told.GetAuthor())
	_, err = adminv1.NewSecretServiceClient(f.dial(f.as("spiffe://mesh/reader/1"))).ListSecrets(t.Context(), &adminv1.ListSecretsRequest{})
	require.Equal(t, codes.PermissionDenied, status.Code(err))

	all, err := secrets.New(f.store).List(t.Context(), nil)
	require.NoError(t, err)
	for _, s := range all {
		require.True(t, seal.IsSealed(s.Data["tls.key"]), "the database has no key in the clear")
	}
	for _, p := range []certtest.Pair{shop, other} {
		planted := strings.Split(string(p.Key), "\n")[1]
		_, metrics := f.get("/metrics")
		require.NotContains(t, metrics+f.log.String(), planted)
	}
}

// Which gateways a secret is for travels with it.
func TestASecretForSomeGateways(t *testing.T) {
	t.Parallel()
	f := startSecure(t, func(o *serve.Options) {
		o.Security.Allow = append(o.Security.Allow, "spiffe://mesh/all=read;secrets")
	})
	pair, api := f.authority.Issue(nil), f.dial(f.withToken(f.token("keeper", "write", "secrets")))
	document := func(accounts ...string) *adminv1.ApplyRequest {
		req := secretDocument(t, "shop", pair)
		content := map[string]any{}
		require.NoError(t, json.Unmarshal(req.GetDocuments()[0].GetContent(), &content))
		content["serviceAccounts"] = accounts
		var err error
		req.Documents[0].Content, err = json.Marshal(content)
		require.NoError(t, err)
		return req
	}
	_, err := adminv1.NewAdminServiceClient(api).Apply(t.Context(), document("bank/gateway"))
	require.Equal(t, codes.InvalidArgument, status.Code(err))
	require.ErrorContains(t, err, `serviceAccounts[0]: "bank/gateway" cannot be a service account`)
	_, err = adminv1.NewAdminServiceClient(api).Apply(t.Context(), document("gateway", "bank-gateway"))
	require.NoError(t, err)

	list, err := adminv1.NewSecretServiceClient(api).ListSecrets(t.Context(), &adminv1.ListSecretsRequest{})
	require.NoError(t, err)
	require.Equal(t, []string{"bank-gateway", "gateway"}, list.GetSecrets()[0].GetServiceAccounts())
	client := connectWithSecrets(t, f.MCP.String(), nil, f.as("spiffe://mesh/all"))
	given := func() [][]string {
		var accounts [][]string
		for _, change := range client.next().Changes {
			if change.Key.Kind == kinds.Secret {
				accounts = append(accounts, change.Resource.Spec.Message().(*mcpv1.Secret).GetServiceAccounts()) //nolint:forcetypeassert // else the test fails
			}
		}
		return accounts
	}
	require.Equal(t, [][]string{{"bank-gateway", "gateway"}}, given())
	_, err = adminv1.NewAdminServiceClient(api).Apply(t.Context(), document())
	require.ErrorContains(t, err, "names no gateway that is given the private key")
	_, err = adminv1.NewAdminServiceClient(api).Apply(t.Context(), document("*"))
	require.NoError(t, err)
	require.Equal(t, [][]string{{"*"}}, given(), "its version is another")
}

func passphraseFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "passphrase")
	require.NoError(t, os.WriteFile(path, []byte("correct horse battery staple\n"), 0o600))
	return path
}

// kms writes a command that encrypts with Caesar's cipher.
func kms(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kms")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\ntr A-Za-z N-ZA-Mn-za-m\n"), 0o700))
	return path
}

// A server that starts without its database serves the saved secrets if it has the key. Otherwise
// its clients keep those that they have.
func TestSecretsWhileTheDatabaseIsAway(t *testing.T) {
	t.Parallel()
	for name, sealing := range map[string]seal.Options{
		"with a key": {KeyFile: keyFile(t)}, "with a passphrase": {PassphraseFile: passphraseFile(t)}, "with a KMS": {Command: kms(t)}, "without": {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			postgres, dir := pgtest.Server(t), t.TempDir()
			o := serve.Options{Database: postgres.URL, StateDir: dir, Sealing: sealing}
			pair := certtest.NewAuthority(t).Issue(nil)
			content, err := json.Marshal(map[string]string{"tls.crt": string(pair.Cert), "tls.key": string(pair.Key)})
			require.NoError(t, err)
			execute(t, postgres.URL, `INSERT INTO mesh.secrets (namespace, name, type, data, service_accounts) VALUES ('shop', 'gate', 'kubernetes.io/tls', mesh.secret_data('`+string(content)+`'), '{gate}')`)
			first := launch(t, o)
			c := connectWithSecrets(t, first.MCP.String(), nil, plaintext)
			require.Len(t, c.secrets(), 1)
			require.Len(t, c.held, 1)
			c.stop()
			first.end()
			postgres.Stop()
			file, err := os.ReadFile(filepath.Join(dir, "mcp-server.snapshot"))
			require.NoError(t, err)
			require.NotContains(t, string(file), strings.Split(string(pair.Key), "\n")[1])

			second := launch(t, o)
			again := connectWithSecrets(t, second.MCP.String(), c.held, plaintext)
			require.Empty(t, again.next().Changes, "what a client has it keeps")
			fresh := connectWithSecrets(t, second.MCP.String(), nil, plaintext)
			if sealing.Given() {
				require.Equal(t, map[string]string{"shop/gate": string(pair.Key)}, fresh.secrets())
				return
			}
			require.Empty(t, fresh.secrets())
			postgres.Start()
			execute(t, postgres.URL, `UPDATE mesh.secrets SET labels = '{"a": "b"}'`)
			for len(fresh.held) == 0 {
				fresh.next()
			}
		})
	}
}
