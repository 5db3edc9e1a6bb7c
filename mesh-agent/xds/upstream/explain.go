package upstream

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/pgmesh/pgmesh/identity/membership"
)

// ErrUnreachable means that nobody answers at discovery's address.
var ErrUnreachable = errors.New("discovery cannot be reached")

// explain says why no connection was made, and what to do about it.
func (l *link) explain(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	alert, refused := errors.AsType[*net.OpError](l.endErr)
	switch {
	case l.verifyErr != nil:
		return wrongServer(l.target.configured, l.verifyErr)
	case isTimeout(l.dialErr) || l.dialErr == nil && isTimeout(l.endErr) || l.dialErr == nil && l.endErr == nil && ctx.Err() != nil:
		return fmt.Errorf("%w at %s: it has not answered in time; is there a firewall between?", ErrUnreachable, l.target)
	case l.dialErr != nil:
		return fmt.Errorf("%w at %s: %w", ErrUnreachable, l.target, rootCause(l.dialErr))
	case isPlaintext(l.endErr):
		return fmt.Errorf("the server at %s does not speak TLS: is it a discovery that runs with --insecure?", l.target)
	case refused && alert.Op == "remote error":
		return fmt.Errorf("the server at %s does not accept this machine's certificate: %w", l.target, alert.Err)
	case errors.Is(l.endErr, io.EOF), !l.isTLS && errors.Is(l.endErr, syscall.ECONNRESET):
		return fmt.Errorf("%w at %s: it ends each connection at once; do both speak TLS, or both --insecure?", ErrUnreachable, l.target)
	case l.isTLS && (l.endErr == nil || errors.Is(l.endErr, syscall.ECONNRESET)): // the reset overtook the server's last alert
		return fmt.Errorf("%w at %s: it ends the connection before anything is said: it does not accept this machine's certificate, or does not speak gRPC "+
			"(is it a discovery, and this the address of its --listen?)", ErrUnreachable, l.target)
	case l.endErr != nil:
		return fmt.Errorf("%w at %s: %w", ErrUnreachable, l.target, rootCause(l.endErr))
	default:
		return fmt.Errorf("the server at %s does not speak gRPC: is it a discovery, and this the address of its --listen?", l.target)
	}
}

// wrongServer says why a server is not trusted.
func wrongServer(server string, reason error) error {
	switch {
	case errors.Is(reason, membership.ErrClock):
		return fmt.Errorf("the server at %s is not trusted: %w Set the clock of this machine, or of the other", server, reason)
	case errors.Is(reason, membership.ErrUntrusted):
		return fmt.Errorf("the server at %s is not trusted: %w; it is of another mesh, or the mesh's roots have changed while this machine was away: "+
			"then join again with a new token: mesh-agent join --again", server, reason)
	default:
		return fmt.Errorf("the server at %s is not trusted: %w", server, reason)
	}
}

// reason says what ended a connection.
func (l *link) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case errors.Is(l.endErr, io.EOF), !l.isTLS && errors.Is(l.endErr, syscall.ECONNRESET):
		return fmt.Errorf("discovery at %s has ended the connection", l.target)
	case l.endErr != nil:
		return fmt.Errorf("the connection to discovery at %s broke: %w", l.target, rootCause(l.endErr))
	case time.Since(l.lastRead) >= keepaliveTimeout:
		return fmt.Errorf("discovery at %s has not answered for %s", l.target, time.Since(l.lastRead).Round(time.Second))
	default:
		return fmt.Errorf("discovery at %s has asked this machine to go elsewhere", l.target)
	}
}

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

func isPlaintext(err error) bool {
	header, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok && strings.Contains(header.Msg, "does not look like a TLS handshake")
}

// rootCause leaves out the system call and the ports.
func rootCause(err error) error {
	if failed, ok := errors.AsType[*os.SyscallError](err); ok {
		return failed.Err
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return failed.Err
	}
	return err
}
