package store_test

import (
	"crypto/x509"
	"encoding/pem"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/certtest"
	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// What SQL says of a certificate is what Go says, and bytes that are none are read without an
// error, whatever is wrong with them.
func TestSQLReadsCertificatesAsGoDoes(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	const reading = "SELECT mesh_internal.is_authority($1), (SELECT not_after FROM mesh_internal.validity($1)) IS NOT NULL"
	authority := certtest.NewAuthority(t)
	random := rand.New(rand.NewPCG(1, 2))
	agreed := 0
	for _, text := range [][]byte{authority.PEM, authority.Issue(nil, "spiffe://mesh/ns/a/sa/b").Cert, authority.Issue(func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }).Cert} {
		block, _ := pem.Decode(text)
		for i := range 400 {
			der := append([]byte{}, block.Bytes...)
			if i > 0 {
				for range 1 + random.IntN(3) {
					der[random.IntN(min(len(der), 120+random.IntN(len(der))))] = byte(random.Uint32())
				}
			}
			if i%7 == 6 {
				der = der[:random.IntN(len(der))]
			}
			var isAuthority, readable bool
			require.NoError(t, db.Conn.QueryRow(t.Context(), reading, der).Scan(&isAuthority, &readable), "%x", der)
			parsed, err := x509.ParseCertificate(der)
			if err != nil {
				require.NotZero(t, i)
				continue
			}
			agreed++
			require.Equal(t, parsed.IsCA, isAuthority, "%x", der)
			require.True(t, readable, "%x", der)
		}
	}
	require.Greater(t, agreed, 100)
}
