package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
}

// Flags declares the flags of the source.
func (s *MCP) Flags(f *pflag.FlagSet) {
	f.StringSliceVar(&s.Addresses, "mcp", []string{"127.0.0.1:15020"},
		"addresses of MCP servers; one is followed, and when it is lost the next is tried")
	s.Protocol = mcp.Auto
	f.Var(&s.Protocol, "protocol", "how to speak with them: auto, xds, delta, or legacy for a Galley of Istio 1.1 to 1.8")
	f.DurationVar(&s.HoldEmpty, "hold-empty", 0,
		"when a server has suddenly nothing of a kind, keep what it had until it has said so for this long; 0 believes it at once")
	f.StringVar(&s.Namespace, "mcp-namespace", "",
		"the namespace that this program tells the servers it runs in; an istiod wants it to be that of the identity it is shown")
	s.Dial.Flags(f, "mcp-")
}

// client speaks plaintext if the program itself does, unless there are flags for TLS.
func (s *MCP) client(plaintext listen.Plaintext, who dial.Identity, log *slog.Logger) (*mcp.Client, error) {
	connection, err := s.connection(plaintext, who, log)
	if err != nil {
		return nil, err
	}
	return mcp.New(mcp.Config{
		Targets: s.Addresses, Protocol: s.Protocol, HoldEmpty: s.HoldEmpty, Namespace: s.Namespace, Name: "discovery", Log: log,
		DialOptions: connection.DialOptions(), Kinds: kinds.WithSecrets(),
	}), nil
}

// connection says how to connect to the servers: by the flags, or, without any, as who discovery
// is.
func (s *MCP) connection(plaintext listen.Plaintext, who dial.Identity, log *slog.Logger) (*dial.Connection, error) {
	how := s.Dial
	if how.Plaintext, how.Identity = plaintext, who; how.TLS.Given() {
		how.Plaintext = listen.Plaintext{}
	}
	connection, err := how.To(log, s.Addresses...)
	if err != nil {
		return nil, fmt.Errorf("--mcp %s: %w", strings.Join(s.Addresses, ","), err)
	}
	return connection, nil
}

var (
	sourceConnected = prometheus.NewDesc("pgmesh_discovery_mcp_connected", "1 while the stream to the MCP server is up.", nil, nil)
	sourceInfo      = prometheus.NewDesc("pgmesh_discovery_mcp_server_info",
		"1 for the MCP server that is followed, or was last, and the protocol that is spoken with it.", []string{"server", "protocol"}, nil)
	sourceLosses = prometheus.NewDesc("pgmesh_discovery_mcp_losses_total",
		"Streams to MCP servers that broke, or could not be opened.", nil, nil)
	sourceUnanswered = prometheus.NewDesc("pgmesh_discovery_mcp_unanswered_types",
		"Types that the MCP server leaves unanswered. While there are any, nothing new is served to proxies.", nil, nil)
	sourceHeld = prometheus.NewDesc("pgmesh_discovery_mcp_held_resources",
		"Resources that stay in force although the MCP server has suddenly none of their kind.", []string{"kind"}, nil)
)

// followed is an MCP server as a source.
type followed struct{ *mcp.Client }

// Name is "mcp".
func (followed) Name() string { return "mcp" }

// Ready says what is served while the server is lost, or behind.
func (f followed) Ready() (string, error) {
	s := f.Status()
	switch {
	case s.Synced && !s.Connected: // proxies are served from what is held
		return fmt.Sprintf("serving revision %d; the MCP server is lost: %v", s.Revision, s.LastError), nil
	case s.Synced && s.Standing != nil && !s.Standing.Stale.IsZero():
		return fmt.Sprintf("serving revision %d, which the MCP server knew to be the newest at %s", s.Revision, s.Standing.Stale.UTC().Format(time.RFC3339)), nil
	case s.Synced:
		return "", nil
	case s.LastError != nil:
		return "", fmt.Errorf("no configuration has come from the MCP server: %w", s.LastError)
	default:
		return "", errors.New("no configuration has come from the MCP server yet")
	}
}

// sourceCollector turns a client's status into metrics.
type sourceCollector struct{ client *mcp.Client }

// Describe lists the metrics.
func (sourceCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sourceConnected, sourceInfo, sourceLosses, sourceUnanswered, sourceHeld} {
		to <- d
	}
}

// Collect reads the client's status.
func (c sourceCollector) Collect(to chan<- prometheus.Metric) {
	s, connected := c.client.Status(), 0.0
	if s.Connected {
		connected = 1
	}
	to <- prometheus.MustNewConstMetric(sourceConnected, prometheus.GaugeValue, connected)
	if s.Target != "" {
		to <- prometheus.MustNewConstMetric(sourceInfo, prometheus.GaugeValue, 1, s.Target, string(s.Protocol))
	}
	to <- prometheus.MustNewConstMetric(sourceLosses, prometheus.CounterValue, float64(s.Reconnects))
	to <- prometheus.MustNewConstMetric(sourceUnanswered, prometheus.GaugeValue, float64(len(s.Unanswered)))
	for _, h := range s.Held {
		to <- prometheus.MustNewConstMetric(sourceHeld, prometheus.GaugeValue, float64(h.Resources), h.Kind.Name+"."+h.Kind.Group)
	}
}
