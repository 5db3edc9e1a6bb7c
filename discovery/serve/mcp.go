package serve

import (
	"cmp"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// MCP says which MCP servers are followed, and how.
type MCP struct {
	Addresses []string
	Protocol  mcp.Protocol
	HoldEmpty time.Duration
	Namespace string
	Dial      dial.Options // without Plaintext, which is the program's own

	flag string // that the addresses are from; "" is --mcp
}

// Flags declares the flags of the source.
func (s *MCP) Flags(f *pflag.FlagSet) {
	f.StringSliceVar(&s.Addresses, "mcp", []string{"127.0.0.1:15020"},
		"addresses of MCP servers; one is followed, and when it is lost the next is tried (--mcp-beside follows further ones at the same time)")
	s.Protocol = mcp.Auto
	f.Var(&s.Protocol, "protocol", "how to speak with them: auto, xds, delta, or legacy for a Galley of Istio 1.1 to 1.8")
	f.DurationVar(&s.HoldEmpty, "hold-empty", 0,
		"when a server has suddenly nothing of a kind, keep what it had until it has said so for this long; 0 believes it at once")
	f.StringVar(&s.Namespace, "mcp-namespace", "",
		"the namespace that this program tells the servers it runs in; an istiod wants it to be that of the identity it is shown")
	s.Dial.Flags(f, "mcp-")
}

// client speaks plaintext if the program itself does, unless there are flags for TLS.
func (s *MCP) client(plaintext listen.Plaintext, who dial.Identity, log *slog.Logger) (followed, error) {
	connection, err := s.connection(plaintext, who, log)
	if err != nil {
		return followed{}, err
	}
	f := followed{unread: newUnread()}
	if s.flag != "" {
		f.addresses = s.addresses()
	}
	f.Client = mcp.New(mcp.Config{
		Targets: s.Addresses, Protocol: s.Protocol, HoldEmpty: s.HoldEmpty, Namespace: s.Namespace, Name: "discovery", Log: log,
		DialOptions: connection.DialOptions(), Kinds: kinds.WithSecrets(), Synced: func() { f.synced() },
	})
	return f, nil
}

func (s *MCP) addresses() string { return strings.Join(s.Addresses, ",") }

// connection says how to connect to the servers: by the flags, or, without any, as who discovery
// is.
func (s *MCP) connection(plaintext listen.Plaintext, who dial.Identity, log *slog.Logger) (*dial.Connection, error) {
	how := s.Dial
	if how.Plaintext, how.Identity = plaintext, who; how.TLS.Given() {
		how.Plaintext = listen.Plaintext{}
	}
	connection, err := how.To(log, s.Addresses...)
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w", cmp.Or(s.flag, "mcp"), s.addresses(), err)
	}
	return connection, nil
}

// followed is an MCP server as a source.
type followed struct {
	*mcp.Client

	addresses string // "" of those of --mcp
	unread    *unread
}

// Name is "mcp", with the addresses of a further server.
func (f followed) Name() string { return strings.TrimSuffix("mcp "+f.addresses, " ") }

// Ready says what is served while the server is lost, or behind.
func (f followed) Ready() (string, error) {
	s, server := f.Status(), strings.TrimSuffix("the MCP server "+f.addresses, " ")
	switch {
	case s.Synced && !s.Connected: // proxies are served from what is held
		return fmt.Sprintf("serving revision %d; %s is lost: %v", s.Revision, server, s.LastError), nil
	case s.Synced && s.Standing != nil && !s.Standing.Stale.IsZero():
		return fmt.Sprintf("serving revision %d, which %s knew to be the newest at %s", s.Revision, server, s.Standing.Stale.UTC().Format(time.RFC3339)), nil
	case s.Synced:
		return f.unread.about(server), nil
	case s.LastError != nil:
		return "", fmt.Errorf("no configuration has come from %s: %w", server, s.LastError)
	default:
		return "", fmt.Errorf("no configuration has come from %s yet", server)
	}
}
