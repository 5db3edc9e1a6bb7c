package store_test

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity/credential"
	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/store"
	"github.com/pgmesh/pgmesh/store/resources"
	"github.com/pgmesh/pgmesh/store/secrets"
)

// putSecret writes a secret of plain values.
func (s session) putSecret(namespace, name, kind string, plain map[string]string) {
	s.T.Helper()
	s.Exec(putSecret, namespace, name, kind, plainJSON(s.T, plain))
}

const putSecret = `INSERT INTO mesh.secrets (namespace, name, type, data, service_accounts) VALUES ($1, $2, $3, mesh.secret_data($4), '{*}')
	ON CONFLICT (namespace, name) DO UPDATE SET type = EXCLUDED.type, data = EXCLUDED.data`

func plainJSON(t testing.TB, plain map[string]string) string {
	t.Helper()
	text, err := json.Marshal(plain)
	require.NoError(t, err)
	return string(text)
}

// tlsData is what a secret of type kubernetes.io/tls has.
func tlsData(p certtest.Pair) map[string]string {
	return map[string]string{"tls.crt": string(p.Cert), "tls.key": string(p.Key)}
}

func secretKey(namespace, name string) kinds.Key {
	return kinds.Key{Kind: kinds.Secret, Namespace: namespace, Name: name}
}

func TestASecretIsPartOfItsTransactionsRevision(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db, batches := connect(t, url), follow(t, s, 0)
	first := certtest.NewAuthority(t).Issue(nil)

	db.Exec("BEGIN")
	db.Put("x", "a")
	db.putSecret("shop", "gate", credential.TLS, tlsData(first))
	db.Exec("COMMIT")
	both := <-batches
	require.Equal(t, store.Revision(1), both.Revision)
	require.Len(t, both.Changes, 1)
	require.Len(t, both.Secrets, 1)
	require.Equal(t, secretKey("shop", "gate"), both.Secrets[0].Key)
	require.Equal(t, store.Revision(1), both.Secrets[0].Through)
	require.Equal(t, base64.StdEncoding.EncodeToString(first.Key), both.Secrets[0].Now.Data["tls.key"])

	db.putSecret("shop", "gate", credential.TLS, tlsData(certtest.NewAuthority(t).Issue(nil)))
	alone := <-batches
	require.Equal(t, store.Revision(2), alone.Revision)
	require.Empty(t, alone.Changes)
	require.Len(t, alone.Secrets, 1)

	db.Exec("DELETE FROM mesh.secrets")
	gone := <-batches
	require.Equal(t, store.Revision(3), gone.Revision)
	require.Nil(t, gone.Secrets[0].Now)

	require.Equal(t, []string{"create Secret", "create VirtualService", "update Secret", "delete Secret"},
		collect[string](db, "SELECT operation || ' ' || kind FROM mesh.history ORDER BY revision, kind"))
	require.Equal(t, "2,1,1", value[string](db, "SELECT string_agg(size::text, ',' ORDER BY revision) FROM mesh.revisions"))
}

// Earlier values are gone: whoever is behind is told of the newest, and of the revision with which
// it is whole.
func TestAReaderThatIsBehindGetsTheNewestSecret(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db := connect(t, url)
	db.putSecret("shop", "gate", credential.TLS, tlsData(certtest.NewAuthority(t).Issue(nil)))
	last := certtest.NewAuthority(t).Issue(nil)
	db.putSecret("shop", "gate", credential.TLS, tlsData(last))
	batches := follow(t, s, 0)
	for range 2 {
		b := <-batches
		require.Equal(t, store.Revision(2), b.Secrets[0].Through)
		require.Equal(t, base64.StdEncoding.EncodeToString(last.Key), b.Secrets[0].Now.Data["tls.key"])
	}
}

func TestAnUndoneChangeOfASecretIsNoRevision(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db, data := connect(t, url), tlsData(certtest.NewAuthority(t).Issue(nil))
	db.putSecret("shop", "gate", credential.TLS, data)
	db.Exec("BEGIN")
	db.Exec("DELETE FROM mesh.secrets")
	db.putSecret("shop", "gate", credential.TLS, data)
	db.Exec("COMMIT")
	db.putSecret("shop", "gate", credential.TLS, data)
	require.Equal(t, int64(1), db.Newest())
	require.Equal(t, 1, value[int](db, "SELECT count(*) FROM mesh_internal.secret_changes"))
}

func TestBadSecretsAreRefusedWithoutAWordOfThem(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db, pair := connect(t, url), certtest.NewAuthority(t).Issue(nil)
	with := func(change ...string) map[string]string {
		data := tlsData(pair)
		for i := 0; i < len(change); i += 2 {
			if data[change[i]] = change[i+1]; change[i+1] == "" {
				delete(data, change[i])
			}
		}
		return data
	}
	const planted = "cGxhbnRlZA-planted"
	for name, tt := range map[string]struct {
		kind string
		data map[string]string
		want string
	}{
		"type":              {"tls", with(), `Secret shop/gate: type: is not one that is known here`},
		"no key":            {credential.TLS, with("tls.key", ""), `Secret shop/gate: data["tls.key"]: is missing`},
		"no certificate":    {credential.TLS, with("tls.crt", planted), `Secret shop/gate: data["tls.crt"]: has no certificate`},
		"half a pair":       {credential.Opaque, map[string]string{"cert": string(pair.Cert)}, `Secret shop/gate: data.key: is missing`},
		"not a key":         {credential.TLS, with("tls.key", planted), `Secret shop/gate: data["tls.key"]: has no private key`},
		"encrypted":         {credential.TLS, with("tls.key", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----"), `Secret shop/gate: data["tls.key"]: is encrypted with a passphrase, which no gateway knows`},
		"not a certificate": {credential.TLS, with("tls.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"), `Secret shop/gate: data["tls.crt"]: has a certificate that cannot be read`},
		"authority":         {credential.Opaque, map[string]string{"cacert": planted}, `Secret shop/gate: data.cacert: has no certificate`},
		"no registries":     {credential.Registries, map[string]string{"a": planted}, `Secret shop/gate: data[".dockerconfigjson"]: is missing`},
		"no JSON":           {credential.Registries, map[string]string{".dockerconfigjson": planted}, `Secret shop/gate: data[".dockerconfigjson"]: names no registry`},
		"no registry":       {credential.Registries, map[string]string{".dockerconfigjson": `{"auths": {}, "a": "` + planted + `"}`}, `Secret shop/gate: data[".dockerconfigjson"]: names no registry`},
		"key of data":       {credential.Opaque, map[string]string{"a b": planted}, `Secret shop/gate: data["a b"]: is not a valid key`},
	} {
		err := db.Refused(putSecret, "shop", "gate", tt.kind, plainJSON(t, tt.data))
		require.Equal(t, tt.want, err.Message, name)
		require.Equal(t, "23514", err.Code, name)
		require.NotContains(t, err.Message+err.Detail+err.Hint+err.Where, planted, name)
		require.NotContains(t, err.Message+err.Detail+err.Hint+err.Where, base64.StdEncoding.EncodeToString([]byte(planted)), name)
	}
	for _, statement := range []string{
		`INSERT INTO mesh.secrets (namespace, name, data) VALUES ('shop', NULL, '{"a": "cGxhbnRlZA=="}')`,
		`INSERT INTO mesh.secrets (namespace, name, data) VALUES (NULL, 'x', '{"a": "cGxhbnRlZA=="}')`,
		`INSERT INTO mesh.secrets (namespace, name, data, labels) VALUES ('shop', 'x', '{"a": "cGxhbnRlZA=="}', NULL)`,
		`INSERT INTO mesh.secrets (namespace, name, data) VALUES ('shop', 'x', '{"a": "cGxhbnRlZA== cGxhbnRlZA"}')`,
		`INSERT INTO mesh.secrets (namespace, name, data, type) VALUES ('shop', 'x', '{"a": "cGxhbnRlZA=="}', NULL)`,
	} {
		err := db.Refused(statement)
		require.Equal(t, "23514", err.Code, statement)
		require.NotContains(t, err.Message+err.Detail+err.Hint+err.Where, "cGxhbnRlZA", statement)
	}
	require.Equal(t, "MS003", db.Refused("TRUNCATE mesh.secrets").Code)
}

func TestTheEndOfACertificateIsReadFromIt(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db, authority := connect(t, url), certtest.NewAuthority(t)
	from := time.Date(1999, 12, 31, 23, 59, 58, 0, time.UTC)
	for i, until := range []time.Time{from.Add(time.Hour), time.Date(2049, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(2077, 3, 4, 5, 6, 7, 0, time.UTC)} {
		pair := authority.Issue(func(c *x509.Certificate) { c.NotBefore, c.NotAfter = from, until })
		db.putSecret("shop", "gate-"+string(rune('a'+i)), credential.TLS, tlsData(pair))
		require.Equal(t, from, value[time.Time](db, "SELECT not_before FROM mesh.secrets ORDER BY created_at DESC LIMIT 1").UTC())
		require.Equal(t, until, value[time.Time](db, "SELECT not_after FROM mesh.secrets ORDER BY created_at DESC LIMIT 1").UTC())
	}
	db.putSecret("shop", "roots", credential.Opaque, map[string]string{"cacert": string(authority.PEM)})
	require.WithinDuration(t, time.Now().Add(24*time.Hour), value[time.Time](db, "SELECT not_after FROM mesh.secrets WHERE name = 'roots'"), time.Minute)
	// A chain ends with the first of its certificates.
	short := authority.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(5 * time.Minute) })
	long := authority.Issue(nil)
	long.Cert = append(long.Cert, short.Cert...)
	db.putSecret("shop", "chain", credential.TLS, tlsData(long))
	require.WithinDuration(t, time.Now().Add(5*time.Minute), value[time.Time](db, "SELECT not_after FROM mesh.secrets WHERE name = 'chain'"), time.Minute)
}

func TestProblemsOfCredentials(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db, authority := connect(t, url), certtest.NewAuthority(t)
	db.Exec(`INSERT INTO mesh.gateways (namespace, name, spec) VALUES ('shop', 'gate', $1)`, json.RawMessage(
		`{"servers": [{"port": {"number": 443, "name": "https", "protocol": "HTTPS"}, "hosts": ["*"], "tls": {"mode": "SIMPLE", "credentialName": "gate"}}]}`))
	db.Exec(`INSERT INTO mesh.destination_rules (namespace, name, spec) VALUES ('shop', 'out', $1)`, json.RawMessage(
		`{"host": "out.example", "trafficPolicy": {"tls": {"mode": "MUTUAL", "credentialName": "out"}, "portLevelSettings": [{"port": {"number": 1}, "tls": {"mode": "SIMPLE", "credentialName": "shop/none"}}]}}`))
	db.Exec(`INSERT INTO mesh.wasm_plugins (namespace, name, spec) VALUES ('shop', 'module', '{"url": "oci://a.example/a", "imagePullSecret": "elsewhere/pull"}')`)
	const of = `SELECT severity || ' ' || code || ' ' || kind || ' ' || name || ' ' || path || ': ' || message FROM mesh.problems
		WHERE code LIKE '%credential%' OR code LIKE 'certificate%' ORDER BY kind, path`
	require.Equal(t, []string{
		"error unknown-credential DestinationRule out spec.trafficPolicy.portLevelSettings[0].tls.credentialName: there is no secret shop/none",
		"error unknown-credential DestinationRule out spec.trafficPolicy.tls.credentialName: there is no secret out",
		"error unknown-credential Gateway gate spec.servers[0].tls.credentialName: there is no secret gate",
		"error unknown-credential WasmPlugin module spec.imagePullSecret: there is no secret shop/pull",
	}, collect[string](db, of))

	db.putSecret("elsewhere", "gate", credential.TLS, tlsData(authority.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(100 * 24 * time.Hour) })))
	db.putSecret("shop", "out", credential.TLS, tlsData(authority.Issue(func(c *x509.Certificate) {
		c.NotBefore = time.Now().Add(-time.Hour)
		c.NotAfter = time.Now().Add(20 * time.Minute)
	})))
	db.putSecret("shop", "pull", credential.Registries, map[string]string{".dockerconfigjson": `{"auths": {"a.example": {"auth": "YTph"}}}`})
	db.putSecret("shop", "none", credential.TLS, tlsData(authority.Issue(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })))
	problems := collect[string](db, of)
	require.Len(t, problems, 2)
	require.Contains(t, problems[0]+problems[1], "warning certificate-expires Secret out : its certificate expires at ")
	require.Contains(t, problems[0]+problems[1], "error certificate-expired Secret none : its certificate has expired at ")

	warned := db.Notices("DELETE FROM mesh.secrets WHERE name = 'gate'")
	require.Equal(t, []string{"Gateway shop/gate: spec.servers[0].tls.credentialName: there is no secret gate"}, warned)
	warned = db.Notices("DELETE FROM mesh.secrets WHERE name = 'pull'")
	require.Equal(t, []string{"WasmPlugin shop/module: spec.imagePullSecret: there is no secret shop/pull"}, warned)
	db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('strict_references', 'on')")
	require.Equal(t, "23503", db.Refused("DELETE FROM mesh.secrets WHERE name = 'out'").Code)
}

func TestSecretsAreGrantedByThemselves(t *testing.T) {
	t.Parallel()
	y := newTenancy(t)
	pair := certtest.NewAuthority(t).Issue(nil)
	y.owner.putSecret("a", "gate", credential.TLS, tlsData(pair))
	y.owner.putSecret("b", "gate", credential.TLS, tlsData(pair))
	const seen = "SELECT coalesce(string_agg(namespace || '/' || name, ' ' ORDER BY namespace), '') FROM mesh.secrets"

	writer := y.tenant("writer", [2]string{"*", "read"})
	require.Empty(t, value[string](writer, seen), "who may write resources sees no secret")
	refused := writer.Refused(putSecret, "a", "mine", credential.TLS, plainJSON(t, tlsData(pair)))
	require.Equal(t, "42501", refused.Code)
	require.Contains(t, refused.Message, `lacks the privilege to write secrets of the namespace "a"`)
	for _, view := range collect[string](y.owner, `SELECT c.oid::regclass::text FROM pg_class c WHERE c.relnamespace = ANY ('{mesh,mesh_internal}'::regnamespace[]) AND c.relkind IN ('r', 'v')
		AND has_table_privilege($1, c.oid, 'SELECT')`, writer.Conn.Config().User) {
		for _, row := range collect[string](writer, "SELECT coalesce(t::text, '') FROM "+view+" t") {
			require.NotContains(t, row, base64.StdEncoding.EncodeToString(pair.Key)[60:120], view)
			require.NotContains(t, row, strings.Split(string(pair.Key), "\n")[1], view)
		}
	}
	require.Equal(t, "42501", writer.Refused("SELECT * FROM mesh_internal.secret_changes").Code)

	role := y.role("reader")
	y.owner.Exec("SELECT mesh.grant_secrets($1, 'a', 'read')", role)
	reader := y.as(role)
	require.Equal(t, "a/gate", value[string](reader, seen))
	require.Equal(t, "42501", reader.Refused("DELETE FROM mesh.secrets").Code)
	require.Equal(t, "42501", reader.Refused("SELECT mesh.delete_secret('a', 'gate')").Code)
	require.Equal(t, "UPDATE 0", reader.affected("UPDATE mesh.secrets SET labels = '{\"a\": \"b\"}'"), "what may only be read is left out")
	require.Empty(t, value[string](reader, names), "who may read secrets sees no resource")
	y.owner.Exec("SELECT mesh.grant_secrets($1, 'a', 'write')", role)
	reader.Exec("UPDATE mesh.secrets SET labels = '{\"a\": \"b\"}'")
	require.Equal(t, "42501", reader.Refused("UPDATE mesh.secrets SET namespace = 'b', name = 'other'").Code)
	require.Equal(t, []string{"a write secrets"}, collect[string](reader, "SELECT namespace || ' ' || privilege FROM mesh.grants"))
	require.True(t, value[bool](y.owner, "SELECT mesh.revoke_secrets($1, 'a')", role))
	require.Equal(t, "42501", reader.Refused(seen).Code)
	require.Equal(t, "42501", reader.Refused("SELECT mesh.grant_secrets('x', 'a', 'read')").Code)

	server := y.role("server")
	y.owner.Exec("SELECT mesh.grant_server($1)", server)
	require.Equal(t, "a/gate b/gate", value[string](y.as(server), seen))
}

func TestSecretsCannotBeTakenBack(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db := connect(t, url)
	db.Exec("BEGIN")
	db.Put("x", "a")
	db.putSecret("shop", "gate", credential.TLS, tlsData(certtest.NewAuthority(t).Issue(nil)))
	db.Exec("COMMIT")
	require.Equal(t, []string{"the secrets that revision 1 has changed stay as they are, for what they were is not kept"}, db.Notices("SELECT * FROM mesh.revert(1)"))
	require.Equal(t, 1, value[int](db, "SELECT count(*) FROM mesh.secrets"))
	db.Exec("BEGIN; SELECT mesh.commit_confirmed('1 minute'); DELETE FROM mesh.secrets")
	require.Equal(t, "MS006", db.Refused("COMMIT").Code)
	require.Equal(t, 1, value[int](db, "SELECT count(*) FROM mesh.secrets"))
}

func TestKeysCanBeRequiredToBeEncrypted(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db, pair := connect(t, url), certtest.NewAuthority(t).Issue(nil)
	db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('encrypted_secrets', 'on')")
	require.Contains(t, db.Refused(putSecret, "shop", "gate", credential.TLS, plainJSON(t, tlsData(pair))).Message, "is not encrypted")
	db.Exec(`INSERT INTO mesh.secrets (namespace, name, type, data, service_accounts)
		VALUES ('shop', 'gate', 'kubernetes.io/tls', mesh.secret_data($1) || '{"tls.key": "pgmesh:v1:0123456789abcdef:AAAA"}', '{gate}')`,
		plainJSON(t, map[string]string{"tls.crt": string(pair.Cert)}))
}

func TestSecretsInAnApply(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db, pair := connect(t, url), certtest.NewAuthority(t).Issue(nil)
	spec := func(p certtest.Pair) json.RawMessage {
		text, err := json.Marshal(map[string]any{"type": credential.TLS, "data": map[string][]byte{"tls.crt": p.Cert, "tls.key": p.Key}, "serviceAccounts": []string{"gate"}})
		require.NoError(t, err)
		return text
	}
	upserts := []resources.Upsert{
		{Key: secretKey("shop", "gate"), Spec: spec(pair)},
		{Key: vs(t, "x"), Spec: virtualService("a")},
		{Key: secretKey("shop", "other"), Spec: spec(pair), Labels: map[string]string{"a": "b"}},
	}
	applied, err := resources.New(s).Apply(t.Context(), resources.Apply{Upserts: upserts})
	require.NoError(t, err)
	require.Equal(t, []resources.Outcome{resources.Created, resources.Created, resources.Created}, applied.Outcomes)
	applied, err = resources.New(s).Apply(t.Context(), resources.Apply{Upserts: upserts[:1], Deletes: []kinds.Key{vs(t, "x"), secretKey("shop", "other")}})
	require.NoError(t, err)
	require.Equal(t, []resources.Outcome{resources.Unchanged, resources.Deleted, resources.Deleted}, applied.Outcomes)
	require.Equal(t, int64(2), db.Newest())
	_, err = resources.New(s).Apply(t.Context(), resources.Apply{Deletes: []kinds.Key{secretKey("shop", "other")}})
	require.ErrorIs(t, err, store.ErrNotFound)
	list, err := secrets.New(s).List(t.Context(), []string{"shop"})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, credential.TLS, list[0].Type)
	var snapshot []string
	_, err = storetest.Feed(t, s).SnapshotWithSecrets(t.Context(), func(*store.Resource) error { return nil }, func(s *secrets.Secret) error {
		snapshot = append(snapshot, s.String())
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"Secret shop/gate"}, snapshot)
}

// Who is given a secret is part of it: a change of that alone is a revision.
func TestASecretCanBeForSomeGateways(t *testing.T) {
	t.Parallel()
	s, url := open(t)
	db, batches := connect(t, url), follow(t, s, 0)
	db.putSecret("shop", "gate", credential.TLS, tlsData(certtest.NewAuthority(t).Issue(nil)))
	require.Equal(t, []string{"*"}, (<-batches).Secrets[0].Now.ServiceAccounts)
	db.Exec("UPDATE mesh.secrets SET service_accounts = '{west,east,west}'")
	changed := <-batches
	require.Equal(t, []string{"east", "west"}, changed.Secrets[0].Now.ServiceAccounts)
	require.Equal(t, `["east", "west"]`, value[string](db, "SELECT (after #> '{spec,serviceAccounts}')::text FROM mesh.history WHERE revision = 2"))
	db.Exec("UPDATE mesh.secrets SET service_accounts = '{west,east}'")
	require.Equal(t, int64(2), db.Newest())

	keep := resources.Upsert{Key: secretKey("shop", "ca"), Spec: json.RawMessage(`{"type": "Opaque", "data": {}, "serviceAccounts": ["b", "a"]}`)}
	for _, outcome := range []resources.Outcome{resources.Created, resources.Unchanged} {
		applied, err := resources.New(s).Apply(t.Context(), resources.Apply{Upserts: []resources.Upsert{keep}})
		require.NoError(t, err)
		require.Equal(t, []resources.Outcome{outcome}, applied.Outcomes)
	}
	keep.Spec = json.RawMessage(`{"type": "Opaque", "data": {}}`)
	_, err := resources.New(s).Apply(t.Context(), resources.Apply{Upserts: []resources.Upsert{keep}})
	require.NoError(t, err)
	require.Equal(t, "{}", value[string](db, "SELECT service_accounts::text FROM mesh.secrets WHERE name = 'ca'"))

	refused := db.Refused("UPDATE mesh.secrets SET service_accounts = '{a/b}'")
	require.Equal(t, "23514", refused.Code)
	require.Contains(t, refused.Message, "serviceAccounts[0]: 'a/b' cannot be a service account")
}
