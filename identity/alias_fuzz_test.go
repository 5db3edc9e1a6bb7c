package identity_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/identity"
)

// What an authority writes is read as it was written, and what strangers write as an alias is a
// text or nothing.
func FuzzAlias(f *testing.F) {
	id := &url.URL{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/shop/sa/web"}
	for _, alias := range []string{"", "shop;web;v1;web;v1;", "a\nb\"c\\}=^%\x00", "\xff\xfe", strings.Repeat("x", 1<<10), "日本"} {
		written, err := identity.WithAlias(id, alias, false)
		require.NoError(f, err)
		f.Add(alias, written.Value)
	}
	f.Add("", []byte{0x30, 0x02, 0xa0, 0x00})
	f.Fuzz(func(t *testing.T, alias string, names []byte) {
		written, err := identity.WithAlias(id, alias, true)
		require.NoError(t, err)
		read := identity.AliasOf(&x509.Certificate{Extensions: []pkix.Extension{written}})
		if utf8.ValidString(alias) {
			require.Equal(t, alias, read)
		} else {
			require.Empty(t, read)
		}
		stranger := pkix.Extension{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: names}
		require.True(t, utf8.ValidString(identity.AliasOf(&x509.Certificate{Extensions: []pkix.Extension{stranger}})), "%x", names)
	})
}
