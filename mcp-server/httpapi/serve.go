package httpapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/panics"
)

const (
	readHeaderTimeout = 5 * time.Second
	idleTimeout       = 2 * time.Minute
	// shutdownTimeout bounds a graceful stop. Watches have ended by then, so only calls that hang
	// remain.
	shutdownTimeout = 5 * time.Second
)

// Serve serves until the context ends, and then lets requests under way finish.
func Serve(ctx context.Context, l net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: panics.Handler(handler), ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: idleTimeout}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		within, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(within); err != nil {
			_ = server.Close()
		}
	})
	err := server.Serve(l)
	if stop() { // the server failed by itself
		return errors.Join(err, server.Close())
	}
	<-stopped
	return nil
}
