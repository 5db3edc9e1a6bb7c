package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/certtest"
)

// With the setting a private key goes to no gateway that nobody has named.
func TestASecretHasToNameItsGatewaysWhereThatIsSet(t *testing.T) {
	t.Parallel()
	_, url := open(t)
	db, data := connect(t, url), plainJSON(t, tlsData(certtest.NewAuthority(t).Issue(nil)))
	write := func(name, accounts string) error {
		_, err := db.conn.Exec(t.Context(), `INSERT INTO mesh.secrets (namespace, name, type, data, service_accounts)
			VALUES ('gateways', $1, 'kubernetes.io/tls', mesh.secret_data($2), $3::text::text[])`, name, data, accounts)
		return err
	}
	require.NoError(t, write("before", "{}"))
	db.exec("INSERT INTO mesh.settings (name, value) VALUES ('named_gateways', 'on')")
	require.ErrorContains(t, write("after", "{}"), "serviceAccounts: names no gateway that is given the private key")
	require.NoError(t, write("one", "{edge}"))
	require.NoError(t, write("all", "{*}"))
	require.Error(t, write("some", "{edge*}"))
}
