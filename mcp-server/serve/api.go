package serve

import (
	"context"
	"net"

	"github.com/pgmesh/pgmesh/internal/kit/inprocess"
	"github.com/pgmesh/pgmesh/mcp-server/httpapi"
)

// serveAPI serves the APIs of the source as JSON over HTTP. A request becomes a call within this
// process, in the request's own context, so the API knows what the handlers around it found out
// about the caller.
func (s *server) serveAPI(ctx context.Context, from source, through calls, l net.Listener) error {
	local := inprocess.New(through.unary, through.stream)
	local.Unknown = through.unknown
	from.register(local)
	defer local.Wait()
	handler, err := httpapi.New(local, httpapi.Options{LocalOnly: s.options.Plaintext.Allowed && !s.options.Plaintext.AnyAddress})
	if err != nil {
		return err
	}
	l, handler = s.door.web(l, handler)
	return httpapi.Serve(ctx, l, handler)
}
