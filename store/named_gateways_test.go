package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/storetest"
	"github.com/pgmesh/pgmesh/store/migration"
)

// A private key goes to no gateway that nobody has named, unless the setting is off; then
// mesh.problems names the secret.
func TestASecretHasToNameItsGatewaysWhereThatIsSet(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db, data := connect(t, url), plainJSON(t, tlsData(certtest.NewAuthority(t).Issue(nil)))
	write := func(name, accounts string) error {
		_, err := db.Conn.Exec(t.Context(), `INSERT INTO mesh.secrets (namespace, name, type, data, service_accounts)
			VALUES ('gateways', $1, 'kubernetes.io/tls', mesh.secret_data($2), $3::text::text[])`, name, data, accounts)
		return err
	}
	require.ErrorContains(t, write("first", "{}"), "serviceAccounts: names no gateway that is given the private key")
	db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('named_gateways', 'off')")
	require.NoError(t, write("before", "{}"))
	require.Equal(t, "warning gateways/before", value[string](db, "SELECT severity || ' ' || namespace || '/' || name FROM mesh.problems WHERE code = 'key-for-all-gateways'"))
	db.Exec("UPDATE mesh.settings SET value = 'on' WHERE name = 'named_gateways'")
	require.ErrorContains(t, write("after", "{}"), "serviceAccounts: names no gateway that is given the private key")
	require.NoError(t, write("one", "{edge}"))
	require.NoError(t, write("all", "{*}"))
	require.Error(t, write("some", "{edge*}"))
}

// A mesh that has keys for nobody in particular goes on giving them away, and is told.
func TestKeysOfBeforeAreStillGivenAway(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db, data := connect(t, url), plainJSON(t, tlsData(certtest.NewAuthority(t).Issue(nil)))
	require.Equal(t, "on", value[string](db, "SELECT mesh.setting('named_gateways')"))
	require.NoError(t, migration.Down(t.Context(), url, 33, storetest.Quietly))
	db.Exec("ALTER TABLE mesh.secrets DISABLE TRIGGER USER")
	db.Exec("INSERT INTO mesh.secrets (namespace, name, type, data) VALUES ('gateways', 'old', 'kubernetes.io/tls', $1)", data)
	db.Exec("ALTER TABLE mesh.secrets ENABLE TRIGGER USER")
	require.NoError(t, migration.Up(t.Context(), url))
	require.Equal(t, "off", value[string](db, "SELECT mesh.setting('named_gateways')"))
	require.Equal(t, "gateways/old", value[string](db, "SELECT namespace || '/' || name FROM mesh.problems WHERE code = 'key-for-all-gateways'"))
}
