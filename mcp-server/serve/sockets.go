package serve

import (
	"errors"
	"net"

	"github.com/pgmesh/pgmesh/internal/listen"
)

// sockets are the program's listeners; api is nil if the options name none.
type sockets struct{ mcp, web, api net.Listener }

// open opens all listeners or none.
func (o Options) open() (on sockets, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, on.close())
		}
	}()
	transport := listen.SecureIf(o.Security.TLS.Given() || o.ownCertificate())
	if on.mcp, err = o.Plaintext.Server("listen", o.Listen, transport); err != nil {
		return on, err
	}
	if o.API != "" {
		if on.api, err = o.Plaintext.Server("api", o.API, transport); err != nil {
			return on, err
		}
	}
	on.web, err = listen.TCP("http", o.HTTP.Address)
	return on, err
}

func (on sockets) close() error {
	var errs []error
	for _, l := range []net.Listener{on.mcp, on.web, on.api} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

func (on sockets) addresses() Addresses {
	a := Addresses{MCP: on.mcp.Addr(), HTTP: on.web.Addr()}
	if on.api != nil {
		a.API = on.api.Addr()
	}
	return a
}
