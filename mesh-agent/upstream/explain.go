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

	"github.com/pgmesh/pgmesh/internal/membership"
)

// ErrUnreachable is of a discovery that nobody answers at.
var ErrUnreachable = errors.New("discovery cannot be reached")

// explain says why a connection did not come about, and what to do about it.
func (l *link) explain(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	alert, refused := errors.AsType[*net.OpError](l.broke)
	switch {
	case l.verify != nil:
		return wrongServer(l.target.said, l.verify)
	case slow(l.dial) || l.dial == nil && slow(l.broke) || l.dial == nil && l.broke == nil && ctx.Err() != nil:
		return fmt.Errorf("%w at %s: it has not answered in time; is there a firewall between?", ErrUnreachable, l.target)
	case l.dial != nil:
		return fmt.Errorf("%w at %s: %w", ErrUnreachable, l.target, innermost(l.dial))
	case isPlaintext(l.broke):
		return fmt.Errorf("the server at %s does not speak TLS: is it a discovery that runs with --insecure?", l.target)
	case refused && alert.Op == "remote error":
		return fmt.Errorf("the server at %s does not accept this machine's certificate: %w", l.target, alert.Err)
	case errors.Is(l.broke, io.EOF):
		return fmt.Errorf("%w at %s: it ends each connection at once; do both speak TLS, or both --insecure?", ErrUnreachable, l.target)
	case l.secure && (l.broke == nil || errors.Is(l.broke, syscall.ECONNRESET)): // its last word was overtaken by the end
		return fmt.Errorf("%w at %s: it ends the connection before anything is said: it does not accept this machine's certificate, or does not speak gRPC "+
			"(is it a discovery, and this the address of its --listen?)", ErrUnreachable, l.target)
	case l.broke != nil:
		return fmt.Errorf("%w at %s: %w", ErrUnreachable, l.target, innermost(l.broke))
	default:
		return fmt.Errorf("the server at %s does not speak gRPC: is it a discovery, and this the address of its --listen?", l.target)
	}
}

// wrongServer is why a server was not spoken to.
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

// reason is what ended a connection.
func (l *link) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case errors.Is(l.broke, io.EOF):
		return fmt.Errorf("discovery at %s has ended the connection", l.target)
	case l.broke != nil:
		return fmt.Errorf("the connection to discovery at %s broke: %w", l.target, innermost(l.broke))
	case time.Since(l.heard) >= answerWithin:
		return fmt.Errorf("discovery at %s has not answered for %s", l.target, time.Since(l.heard).Round(time.Second))
	default:
		return fmt.Errorf("discovery at %s has asked this machine to go elsewhere", l.target)
	}
}

func slow(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

func isPlaintext(err error) bool {
	header, ok := errors.AsType[tls.RecordHeaderError](err)
	return ok && strings.Contains(header.Msg, "does not look like a TLS handshake")
}

// innermost leaves out which system calls failed, and between which ports.
func innermost(err error) error {
	if failed, ok := errors.AsType[*os.SyscallError](err); ok {
		return failed.Err
	}
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return failed.Err
	}
	return err
}
