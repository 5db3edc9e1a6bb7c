package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/pgmesh/pgmesh/internal/panics"
)

const (
	readHeaderWithin = 5 * time.Second
	idleFor          = 2 * time.Minute
	// stopWithin bounds a graceful stop. Watches have been told to end by then; what remains are calls that hang.
	stopWithin = 5 * time.Second
)

// Serve answers until the context ends, and lets requests finish that are under way.
func Serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: panics.Handler(handler), ReadHeaderTimeout: readHeaderWithin, IdleTimeout: idleFor}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		within, cancel := context.WithTimeout(context.Background(), stopWithin)
		defer cancel()
		if err := server.Shutdown(within); err != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(l)
	if stop() { // it failed by itself
		return errors.Join(err, server.Close())
	}
	<-stopped
	return nil
}
