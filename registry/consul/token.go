package consul

import (
	"bytes"
	"errors"
	"strings"

	"github.com/pgmesh/pgmesh/internal/kit/reload"
)

// loadToken reads the file of an ACL token, which is read again when it changes.
func loadToken(o reload.Options, file string) (*reload.Value[string], error) {
	o.What = "token for Consul"
	return reload.Load(o, func(contents [][]byte) (string, error) {
		token := string(bytes.TrimSpace(contents[0]))
		if token == "" {
			return "", errors.New("there is no token in " + file)
		}
		if strings.ContainsAny(token, " \t\r\n") {
			return "", errors.New("there is more than a token in " + file)
		}
		return token, nil
	}, file)
}

func (r *Registry) tokenNow() string {
	if r.token == nil {
		return ""
	}
	return r.token.Fresh()
}
