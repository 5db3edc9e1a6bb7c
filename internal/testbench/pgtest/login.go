package pgtest

import (
	"net"
	"net/url"
	"strconv"
)

// Login has the parameters of a connection to a test's database as another role.
type Login struct {
	Host           string
	Port           uint16
	Database       string
	User, Password string
}

// URL returns the login as a database URL.
func (l *Login) URL() string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword(l.User, l.Password),
		Host: net.JoinHostPort(l.Host, strconv.Itoa(int(l.Port))), Path: "/" + l.Database,
	}
	return u.String()
}
