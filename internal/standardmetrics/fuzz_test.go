package standardmetrics_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/standardmetrics"
)

// fields of a workload have nothing that could end them, be a format of Envoy's, or be long.
var fields = regexp.MustCompile(`^([-a-zA-Z0-9_./:]{0,63};){5}[-a-zA-Z0-9_./:]{0,63}$`)

// A certificate may say anything of its bearer. Its namespace is that of its identity all the same,
// nothing of it is anything but a label of its own, and no other part of the tag is moved.
func FuzzAliases(f *testing.F) {
	for _, alias := range []string{
		"shop;web;v1;web;v1;", "", ";;;;;", "bank;a\nb;\"c\\;};=;^", "^^^^^^^^^^", "%PROTOCOL%;;;;;", "\xff;\xfe;;;;", strings.Repeat("x;", 5) + strings.Repeat("y", 1<<10),
		`[{"host":"h","name":"n","namespace":"bank"}]`,
	} {
		f.Add(alias)
	}
	f.Fuzz(func(t *testing.T, alias string) {
		w, ok := standardmetrics.ParseWorkload(alias)
		require.Regexp(t, fields, w.Encode())
		again, readable := standardmetrics.ParseWorkload(w.Encode())
		require.True(t, readable)
		require.Equal(t, w, again)

		labels, ok2 := standardmetrics.Labels(standardmetrics.Series{
			Reporter: standardmetrics.Destination, Own: standardmetrics.Workload{Namespace: "bank", Service: "vault"}, Protocol: standardmetrics.HTTP,
			Code: "200", PeerID: "spiffe://cluster.local/ns/shop/sa/web", Service: "vault.bank", Peer: alias,
		}.Format())
		require.True(t, ok2, "nobody may keep their requests from being counted")
		got := map[string]string{}
		for _, l := range labels {
			require.True(t, utf8.ValidString(l.Value))
			got[l.Name] = l.Value
		}
		require.Equal(t, "shop", got["source_workload_namespace"])
		require.Equal(t, "vault.bank", got["destination_service"])
		require.Equal(t, "200", got["response_code"])
		if !ok {
			require.Equal(t, "web", got["source_workload"])
		}
	})
}
