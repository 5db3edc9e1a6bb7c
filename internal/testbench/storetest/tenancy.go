package storetest

import (
	"strings"
	"testing"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
)

// Tenancy is a database with the virtual service x in the namespace a, in which tests create roles.
type Tenancy struct {
	Owner Session
	URL   string
}

// NewTenancy creates such a database.
func NewTenancy(t testing.TB) Tenancy {
	t.Helper()
	url := pgtest.New(t)
	owner := Connect(t, url)
	owner.Put("x", "a")
	owner.Exec("UPDATE mesh.resources SET namespace = 'a'")
	return Tenancy{owner, url}
}

// Role creates a role that lives as long as the database, and returns its name.
func (y Tenancy) Role(suffix string, options ...string) string {
	t := y.Owner.T
	name := Value[string](y.Owner, "SELECT current_database()") + "_" + suffix
	y.Owner.Exec("CREATE ROLE " + name + " LOGIN PASSWORD 'secret' " + strings.Join(options, " "))
	t.Cleanup(func() { y.Owner.Exec("DROP OWNED BY " + name + "; DROP ROLE " + name) })
	return name
}

// As connects as a role.
func (y Tenancy) As(role string) Session { return Connect(y.Owner.T, y.Login(role)) }

// Login is the URL with which a role connects.
func (y Tenancy) Login(role string) string {
	c := y.Owner.Conn.Config()
	login := pgtest.Login{Host: c.Host, Port: c.Port, Database: c.Database, User: role, Password: "secret"}
	return login.URL()
}

// Tenant creates a role that may write to a, with further grants, and connects as it.
func (y Tenancy) Tenant(suffix string, grants ...[2]string) Session {
	role := y.Role(suffix)
	for _, g := range append(grants, [2]string{"a", "write"}) {
		y.Grant(role, g[0], g[1])
	}
	return y.As(role)
}

// Grant grants a role a namespace.
func (y Tenancy) Grant(role, namespace, privilege string) {
	y.Owner.T.Helper()
	y.Owner.Exec("SELECT mesh.grant_namespace($1, $2, $3)", role, namespace, privilege)
}
