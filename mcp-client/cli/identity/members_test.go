package identity_test

import (
	"crypto/sha256"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/jointoken"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/store/identity/members"
	"github.com/pgmesh/pgmesh/store/identity/trust"
)

func TestJoinTokens(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	none := m.Run("token", "create", "--identity", "shop/cart")
	require.Equal(t, 1, none.Code)
	require.Contains(t, none.Err, "the mesh has no authority that a join token could be bound to: run mcp-server with --secrets-key-file")
	s := m.GiveMembers()

	made := m.Run("token", "create", "web", "--identity", "shop/cart", "--uses", "2", "--expires-in", "30m", "--discovery", "https://eu.mesh.example:15014/x")
	require.Zero(t, made.Code, made.Err)
	token, err := jointoken.Parse(made.Out)
	require.NoError(t, err)
	require.Contains(t, made.Err, "made the join token web: for 2 machines of shop/cart, valid until ")
	require.Contains(t, made.Err, "It is a secret: whoever has it becomes that.")
	require.Contains(t, made.Err, "\n  mesh-agent join --server eu.mesh.example:15012 --token-file FILE\n")
	require.NotContains(t, made.Err, strings.TrimSpace(made.Out))
	hash, key := token.Hash(), sha256.Sum256([]byte("key"))
	joined, err := members.New(s).RedeemMachines(t.Context(), "discovery", []members.Joining{{TokenHash: hash[:], KeyHash: key[:]}})
	require.NoError(t, err)
	require.Equal(t, "cart", joined[0].ServiceAccount)

	var printed struct{ Name, Secret, Join, WorkloadGroup, State string }
	missing := m.Run("token", "create", "--group", "shop/fleet")
	require.Equal(t, 1, missing.Code)
	require.Contains(t, missing.Err, "there is no WorkloadGroup shop/fleet (write it first; or make the token for a service account)")
	m.Apply("{apiVersion: networking.istio.io/v1, kind: WorkloadGroup, metadata: {name: fleet, namespace: shop}, spec: {template: {}}}\n")
	require.NoError(t, json.Unmarshal([]byte(m.OK("token", "create", "--group", "shop/fleet", "-o", "json")), &printed))
	require.Equal(t, []string{"fleet", "valid", "mesh-agent join --server DISCOVERY:15012"}, []string{printed.WorkloadGroup, printed.State, printed.Join})
	require.Contains(t, m.Run("token", "create", "eu-2", "--for", "discovery").Err, "discovery run --join-token-file FILE")

	m.OK("token", "create", "ci", "--scope", "read")
	list := m.OK("token", "list")
	require.Regexp(t, `(?s)^NAME +STATE.*\nci +in force.*\n\nJOIN TOKEN +STATE +FOR +USES +EXPIRES +LAST USED\neu-2 +valid +discovery +0/1 .*\njoin-\w+ +valid +group shop/fleet +0/1 .*\nweb +valid +shop/cart +1/2 .*\n$`, list)
	require.NotContains(t, list+m.OK("token", "list", "-o", "yaml"), strings.TrimSpace(made.Out)[len(jointoken.Prefix):])
	require.Equal(t, "ci\neu-2\n"+printed.Name+"\nweb\n", m.OK("token", "list", "-o", "name"))
	shopkeeper := strings.TrimSpace(m.OK("token", "create", "shopkeeper", "--scope", "write:shop"))
	require.Regexp(t, `^JOIN TOKEN .*\njoin-\w+ .*\nweb .*\n$`, m.OK("token", "list", "--token", shopkeeper), "servers' tokens are an administrator's")

	require.Contains(t, m.Run("delete", "workloadgroup", "fleet", "-n", "shop", "--token", shopkeeper, "--dry-run").Err, "the WorkloadGroup shop/fleet that it is for is gone")
	deleted := m.Run("delete", "workloadgroup", "fleet", "-n", "shop", "--token", shopkeeper)
	require.Zero(t, deleted.Code, deleted.Err)
	require.Contains(t, deleted.Err, "warning: JoinToken shop/"+printed.Name+": the WorkloadGroup shop/fleet that it is for is gone, and nobody can join with it (write the group again, or revoke the token)")
	require.Contains(t, m.Run("problems", "-n", "shop", "--token", shopkeeper).Out, "unknown-workload-group")

	require.Equal(t, "revoked web\n", m.OK("token", "revoke", "web", "--token", shopkeeper))
	denied := m.Run("token", "revoke", "eu-2", "--token", shopkeeper)
	require.Equal(t, 5, denied.Code, denied.Err)
	require.Contains(t, m.OK("token", "list"), "revoked")
	m.OK("token", "create", "ci", "--identity", "shop/cart")
	both := m.Run("token", "revoke", "ci")
	require.Equal(t, 1, both.Code)
	require.Contains(t, both.Err, `there are a bearer token and a join token "ci": revoke the join token first, with --join`)
	require.Equal(t, "revoked ci\n", m.OK("token", "revoke", "ci", "--join"))
	require.Contains(t, m.OK("token", "list"), "in force")
	require.Equal(t, "revoked ci\n", m.OK("token", "revoke", "ci"))
	again := m.Run("token", "revoke", "ci", "--join")
	require.Equal(t, 1, again.Code)
	require.Contains(t, again.Err, `there is no join token "ci" in force that you may revoke`)
}

// A port that is given is where machines join, unless it is known to be that of discovery's pages.
func TestTheCommandOfAMachineHasThePort(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.GiveMembers()
	for discovery, server := range map[string]string{
		"eu.mesh.example": "eu.mesh.example:15012", "eu.mesh.example:16012": "eu.mesh.example:16012", "[fd00::1]:16012": "[fd00::1]:16012",
		"eu.mesh.example:15014": "eu.mesh.example:15012", "https://eu.mesh.example:16014": "eu.mesh.example:15012", // are of the pages
	} {
		require.Contains(t, m.Run("token", "create", "--identity", "shop/cart", "--discovery", discovery).Err, "\n  mesh-agent join --server "+server+" --token-file FILE\n")
	}
	byVariable := clitest.Run(t.Context(), "", map[string]string{"PGMESH_SERVER": m.Address, "PGMESH_INSECURE": "true", "PGMESH_DISCOVERY": "eu.mesh.example:8080"}, "token", "create", "--identity", "shop/cart")
	require.Contains(t, byVariable.Err, "mesh-agent join --server eu.mesh.example:15012 ", "which is of the pages")
}

func TestInvalidJoinTokensAreRefused(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.GiveMembers()
	for says, tt := range map[string]struct {
		code int
		args []string
	}{
		"a join token is for one of --identity, --group and --for":       {2, []string{"--identity", "a/b", "--group", "a/b"}},
		"--identity cart: write NAMESPACE/SERVICE-ACCOUNT":               {2, []string{"--identity", "cart"}},
		"--group a/b/c: write NAMESPACE/WORKLOADGROUP":                   {2, []string{"--group", "a/b/c"}},
		"--uses must be at least 1":                                      {2, []string{"--identity", "a/b", "--uses", "0"}},
		"--scope is for bearer tokens; leave it out":                     {2, []string{"--identity", "a/b", "--scope", "read"}},
		"--expires-in must be above 0: a join token has to expire":       {2, []string{"--identity", "a/b", "--expires-in", "0"}},
		"accepts 1 arg(s), received 0":                                   {2, []string{"--scope", "read"}},
		"'Shop' is not a valid namespace":                                {1, []string{"--identity", "Shop/cart"}},
		"'cook' is no server that has an identity (write mcp-server or ": {1, []string{"--for", "cook"}},
	} {
		r := m.Run(append([]string{"token", "create"}, tt.args...)...)
		require.Equal(t, tt.code, r.Code, "%s: %s", says, r.Err)
		require.Contains(t, r.Err, says)
		require.Empty(t, r.Out)
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	s := m.GiveMembers()
	m.Issue(s, members.Issue{Identity: "spiffe://cluster.local/pgmesh/discovery/eu-1", Enrolment: "s-abcdefgh234567ab", Credential: "token"})
	m.Issue(s, members.Issue{Refusal: "token_used", Detail: "the join token was used once, as often as it may be", Credential: "token", Peer: "10.0.0.9:1"})

	require.Regexp(t, `(?s)^IDENTITY +ENROLMENT +STATE +ISSUED +EXPIRES\nspiffe://cluster.local/pgmesh/discovery/eu-1 +s-abcdefgh234567ab +valid .*`+
		`\nspiffe://cluster.local/ns/default/sa/reviews +m-abcdefgh234567ab +valid .*Z\n$`, m.OK("identity", "list"))
	require.Equal(t, "m-abcdefgh234567ab\n", m.OK("identity", "list", "-n", "default", "-o", "name"))
	require.Contains(t, m.OK("identity", "list", "-o", "wide"), "10.0.0.1:4711")

	log := m.OK("identity", "log", "--refused", "--since", "1h")
	require.Regexp(t, `^TIME +TIMES +OUTCOME +IDENTITY +ENROLMENT +SHOWN +FROM +DETAIL\n\S+Z +1 +token_used +- +- +token +10.0.0.9:1 +the join token was used once, as often as it may be\n$`, log)
	require.Equal(t, 2, strings.Count(m.OK("identity", "log", "--machine", "m-abcdefgh234567ab"), "\n"))
	require.Equal(t, 2, m.Run("identity", "log", "--since", "yesterday").Code)
	var records []struct{ Identity, Enrolment, Server, Serial string }
	require.NoError(t, json.Unmarshal([]byte(m.OK("identity", "log", "--identity", "spiffe://cluster.local/ns/default/sa/reviews", "-o", "json")), &records))
	require.Len(t, records, 1)
	require.Equal(t, "spiffe://cluster.local/pgmesh/discovery/eu-1", records[0].Server)

	require.Equal(t, "revoked m-abcdefgh234567ab\nrevoked pgmesh/discovery/eu-1\n", m.OK("identity", "revoke", "m-abcdefgh234567ab", "pgmesh/discovery/eu-1", "--reason", "stolen"))
	require.Equal(t, "was revoked already m-abcdefgh234567ab\n", m.OK("identity", "revoke", "m-abcdefgh234567ab"))
	nobody := m.Run("identity", "revoke", "spiffe://cluster.local/ns/shop/sa/cart")
	require.Equal(t, clitest.Result{Out: "revoked shop/cart\n", Err: "warning: no machine has a certificate of shop/cart now: mcp-client identity list -n shop lists who has one\n"}, nobody)
	require.Equal(t, clitest.Result{Out: "revoked default/reviews\n"}, m.Run("identity", "revoke", "default/reviews"))
	require.Equal(t, "restored default/reviews\n", m.OK("identity", "restore", "default/reviews"))
	require.Equal(t, 2, strings.Count(m.OK("identity", "list"), " revoked "))
	require.Equal(t, "restored shop/cart\n", m.OK("identity", "restore", "shop/cart"))
	require.Regexp(t, `^MEMBER +STATE +SINCE +BY +REASON\ndefault/reviews +restored .*\nshop/cart +restored .*\npgmesh/discovery/eu-1 +revoked .* stolen\nm-abcdefgh234567ab +revoked .* stolen\n$`, m.OK("identity", "list", "--revoked"))
	for says, tt := range map[string]struct {
		code int
		args []string
	}{
		`"a/b/c/d" names nobody: write NAMESPACE/SERVICE-ACCOUNT`: {2, []string{"revoke", "m-abcdefgh234567ab", "a/b/c/d"}},
		`"spiffe://" names nobody`:                                {2, []string{"revoke", "spiffe://"}},
		`no machine "m-9" has ever joined: list the machines`:     {1, []string{"revoke", "m-9"}},
		`shop/cart: it is not revoked: list the revocations`:      {1, []string{"restore", "shop/cart"}},
	} {
		r := m.Run(append([]string{"identity"}, tt.args...)...)
		require.Equal(t, tt.code, r.Code, r.Err)
		require.Contains(t, r.Err, says)
		require.Empty(t, r.Out)
	}
}

func TestAuthorityShowsNextSteps(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	require.Contains(t, m.Run("authority", "show").Err, "the mesh cluster.local has no authority: run mcp-server with --secrets-key-file")
	s := m.GiveMembers()
	shown := m.Run("authority", "show")
	require.Regexp(t, `^ID +STATE +EXPIRES +CREATED +BY +FINGERPRINT\n1 +active .* mcp-server +[0-9a-f]{16}\n2 +next .* ada +[0-9a-f]{16}\n$`, shown.Out)
	require.Equal(t, "authority 2 is trusted and signs nothing yet. It may sign now: mcp-client authority activate 2\n", shown.Err)
	m.Execute("UPDATE mesh_internal.authority_keys SET created_at = now() - interval '1 minute' WHERE id = 2")
	require.Regexp(t, `It may sign from \S+Z on: mcp-client authority activate 2\n$`, m.Run("authority", "show").Err)
	early := m.Run("authority", "activate", "2")
	require.Equal(t, 1, early.Code)
	require.Contains(t, early.Err, "not every member of the mesh may have heard of authority 2")
	require.Equal(t, "authority 2 signs\n", m.OK("authority", "activate", "2", "--force"))
	require.Contains(t, m.Run("authority", "show").Err, "authority 1 signs no more and is still trusted. Once nobody has a certificate of it: mcp-client authority retire 1")
	m.Execute("UPDATE mesh_internal.authority_keys SET replaced_at = now() + interval '1 minute' WHERE id = 1")
	held := m.Run("authority", "retire", "1")
	require.Equal(t, 1, held.Code)
	require.Contains(t, held.Err, "one member of the mesh has a certificate that authority 1 signed, such as spiffe://cluster.local/ns/default/sa/reviews")
	require.Equal(t, "authority 1 is trusted no more\n", m.OK("authority", "retire", "1", "--force"))
	require.Equal(t, 2, m.Run("authority", "retire", "first").Code)
	list, err := trust.New(s).Authorities(t.Context())
	require.NoError(t, err)
	var tree struct {
		TrustDomain string
		Authorities []struct{ Certificate, State string }
	}
	require.NoError(t, json.Unmarshal([]byte(m.OK("authority", "show", "-o", "json")), &tree))
	require.Equal(t, []string{"cluster.local", string(list[1].Chain), "active"}, []string{tree.TrustDomain, tree.Authorities[1].Certificate, tree.Authorities[1].State})
}

func TestTrustedMeshesAndIssuers(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	leaf := certtest.NewAuthority(t).Issue(nil)
	dir := clitest.Folder(t, map[string]string{"partner.pem": string(certtest.NewAuthority(t).PEM), "leaf.pem": string(leaf.Cert), "keys.json": `{"keys": [{"kty": "EC"}]}`, "private.json": `{"keys": [{"kty": "EC", "d": "planted"}]}`})
	require.Equal(t, "trusting partner.example\n", m.OK("trust", "add", "partner.example", "--roots", dir+"/partner.pem"))
	require.Regexp(t, `^TRUST DOMAIN +EXPIRES +AUTHOR +UPDATED\npartner.example .*\n$`, m.OK("trust", "list"))
	require.Equal(t, 2, m.Run("trust", "add", "partner.example").Code)
	refused := m.Run("trust", "add", "x.example", "--roots", dir+"/leaf.pem")
	require.Equal(t, 1, refused.Code)
	require.Contains(t, refused.Err, "the roots of x.example have a certificate that is none of an authority, number 1")
	require.Equal(t, "trusting partner.example no more\n", m.OK("trust", "remove", "partner.example"))
	require.Contains(t, m.Run("trust", "remove", "partner.example").Err, `there is no other mesh "partner.example" that is trusted`)

	create := func(args ...string) clitest.Result {
		return m.Run(append([]string{"issuer", "create", "cloud", "--issuer", "https://cloud.example", "--audience", "pgmesh"}, args...)...)
	}
	made := create("--jwks", dir+"/keys.json", "--claim", "project.id=shop-1", "--identity", "shop/cart")
	require.Zero(t, made.Code, made.Err)
	require.Regexp(t, `^NAME +ISSUER +AUDIENCES +CLAIMS +JOINS AS\ncloud +https://cloud.example +pgmesh +project.id=shop-1 +shop/cart\n$`, m.OK("issuer", "list"))
	require.Zero(t, create("--jwks-uri", "https://cloud.example/keys", "--identity", "shop/other").Code)
	require.Contains(t, m.OK("issuer", "list", "-o", "wide"), "https://cloud.example/keys")
	for says, r := range map[string]clitest.Result{
		"the issuer's keys are in one place: give --jwks-uri or --jwks":  create("--identity", "shop/cart", "--jwks-uri", "https://x.example", "--jwks", dir+"/keys.json"),
		"--identity : write NAMESPACE/SERVICE-ACCOUNT":                   create("--jwks-uri", "https://cloud.example/keys"),
		"jwks_uri is not where keys can be fetched safely (write https:": create("--jwks-uri", "http://cloud.example/keys", "--identity", "shop/cart"),
		"jwks has a key that is not public":                              create("--jwks", dir+"/private.json", "--identity", "shop/cart"),
	} {
		require.NotZero(t, r.Code)
		require.Contains(t, r.Err, says)
		require.NotContains(t, r.Err, "planted")
	}
	require.Equal(t, "deleted issuer cloud\n", m.OK("issuer", "delete", "cloud"))
	require.Equal(t, 1, m.Run("issuer", "delete", "cloud").Code)
}
