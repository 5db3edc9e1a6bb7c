package store_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	setting := func(name, namespace string) string {
		return value[string](db, "SELECT mesh.setting($1, $2)", name, namespace)
	}

	require.Equal(t, "off", setting("strict_references", "shop"))
	db.Exec("INSERT INTO mesh.settings (name, value) VALUES ('strict_references', 'true'), ('history_max_age', '12 hours')")
	db.Exec("INSERT INTO mesh.settings (namespace, name, value) VALUES ('shop', 'strict_references', 'no')")
	require.Equal(t, "off", setting("strict_references", "shop"))
	require.Equal(t, "on", setting("strict_references", "other"))
	require.Equal(t, "on", setting("strict_references", ""))
	db.Exec("UPDATE mesh.settings SET value = 'on' WHERE namespace = 'shop'")
	require.Equal(t, "on", setting("strict_references", "shop"))
	db.Exec("DELETE FROM mesh.settings WHERE name = 'strict_references'")
	require.Equal(t, "off", setting("strict_references", "shop"))
	require.Equal(t, "12 hours", setting("history_max_age", ""))
	require.True(t, value[bool](db, "SELECT mesh.setting('history_max_revisions') IS NULL"))
	require.True(t, value[bool](db, "SELECT author = session_user FROM mesh.settings"), "who has set it is kept")
	require.Equal(t, "MS", value[string](db, "SELECT 'MS' WHERE NOT EXISTS (SELECT FROM mesh.known_settings WHERE meaning = '' OR type = '')"))
}

func TestInvalidSettingsAreRefused(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for _, test := range []struct{ namespace, name, value, code, message, hint string }{
		{"", "strict_reference", "on", "42704", `unknown setting "strict_reference"`, `did you mean "strict_references"?`},
		{"", "strict_references", "maybe", "22023", `setting "strict_references": "maybe" is not a value of it`, "write on or off"},
		{"", "history_max_age", "-1 day", "22023", `setting "history_max_age": "-1 day" is not a value of it`, "write an interval above 0, such as 90 days or 12 hours"},
		{"", "history_max_revisions", "1e5", "22023", `setting "history_max_revisions": "1e5" is not a value of it`, "write a whole number above 0; delete the row to have no limit"},
		{"", "history_max_revisions", "0", "22023", `setting "history_max_revisions": "0" is not a value of it`, "write a whole number above 0; delete the row to have no limit"},
		{"shop", "history_max_age", "1 day", "22023", `setting "history_max_age" is one of the whole mesh and cannot be set for namespace "shop"`, "leave the namespace empty"},
		{"Shop", "strict_references", "on", "22023", `setting "strict_references": "Shop" is not a valid namespace`, `at most 63 lower-case letters, digits and "-", the first and the last a letter or digit`},
	} {
		err := db.Refused("INSERT INTO mesh.settings (namespace, name, value) VALUES ('" + test.namespace + "', '" + test.name + "', '" + test.value + "')")
		require.Equal(t, []string{test.code, test.message, test.hint}, []string{err.Code, err.Message, err.Hint})
	}
	require.Equal(t, "42704", db.Refused("SELECT mesh.setting('x')").Code)
}
