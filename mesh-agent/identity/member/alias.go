package member

import (
	"github.com/pgmesh/pgmesh/identity"
)

// Call says what metrics are to call this machine. The next certificate says so to others. Call it
// before Keep.
func (m *Member) Call(alias string) { m.alias = alias }

// Introduce has this machine get a certificate that says what metrics call it, unless it has one.
// Servers name their clients by that in metrics.
func (m *Member) Introduce() {
	if m.Source == FromMesh && m.alias != "" && identity.AliasOf(m.membership.Current().Certificate.Leaf) != m.alias {
		m.membership.RenewSoon()
	}
}
