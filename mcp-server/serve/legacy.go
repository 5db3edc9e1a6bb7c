package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/internal/kit/stamp"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
	"github.com/pgmesh/pgmesh/mcp-server/legacy"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
	"github.com/pgmesh/pgmesh/store/sinks"
)

// Legacy says how the first generation of MCP is served.
type Legacy struct {
	MaxMessage int      // bytes
	Sinks      []string // addresses to dial
	SinkMeta   []string // name=value
	SinkTLS    tlsfiles.Client
	Plaintext  listen.Plaintext // whether sinks may be dialled without TLS, and where
	LetGo      time.Duration    // after how long without a connection this server leaves a sink of the table to others; 30 s if 0
}

// Flags declares the flags of the first generation.
func (l *Legacy) Flags(f *pflag.FlagSet) {
	f.IntVar(&l.MaxMessage, "legacy-max-message", legacy.MaxMessage,
		"for Istio 1.0 to 1.8: how many bytes a message to a sink may have. What does not fit is reported and not sent, for a Pilot would end the stream over it")
	f.StringSliceVar(&l.Sinks, "sink", nil,
		"host:port of a server to dial that takes configuration by Istio's old ResourceSink; can be repeated. The table mesh.sinks names more")
	f.StringArrayVar(&l.SinkMeta, "sink-meta", nil, "name=value of a header to send to the servers of --sink; can be repeated")
	f.DurationVar(&l.LetGo, "sink-let-go", 30*time.Second,
		"how long this server tries to reach a sink of mesh.sinks before it leaves it to another server; where there is none it goes on trying, and leaves it ever less often")
	l.SinkTLS.Flags(f, "sink-")
	f.BoolVar(&l.Plaintext.Allowed, "sink-insecure", false, "speak to sinks without TLS, on loopback only, unless mesh.sinks says otherwise of one")
	f.BoolVar(&l.Plaintext.AnyAddress, "sink-insecure-any-address", false,
		"with --sink-insecure: without TLS to other addresses too; everyone on the way can read and change what is sent")
}

// leastMessage has room for any resource of usual size.
const leastMessage = 64 << 10

func (l *Legacy) check() error {
	if l.MaxMessage != 0 && l.MaxMessage < leastMessage {
		return fmt.Errorf("--legacy-max-message %d: hardly a resource would fit; choose at least %d", l.MaxMessage, leastMessage)
	}
	sinks, err := l.sinks()
	if err != nil {
		return err
	}
	for _, sink := range sinks {
		if _, err := l.credentials(sink); err != nil {
			return fmt.Errorf("--sink %s: %w", sink.Address, err)
		}
	}
	return nil
}

// sinks are those that the flags name.
func (l *Legacy) sinks() ([]legacy.Sink, error) {
	headers := map[string]string{}
	for _, pair := range l.SinkMeta {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return nil, errors.New("--sink-meta: write name=value") // what was written may be a secret
		}
		headers[strings.ToLower(name)] = value
	}
	var sinks []legacy.Sink
	for _, address := range l.Sinks {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			return nil, fmt.Errorf("--sink %s: write host:port", address)
		}
		sinks = append(sinks, legacy.Sink{Address: address, Metadata: headers})
	}
	return sinks, nil
}

// credentials are those to dial a sink with.
func (l *Legacy) credentials(sink legacy.Sink) (credentials.TransportCredentials, error) {
	transport := cmp.Or(sink.Transport, listen.SecureIf(l.SinkTLS.Given() || !l.Plaintext.Allowed))
	if transport == listen.Secure {
		files := l.SinkTLS
		if sink.ServerName != "" {
			files.ServerName = sink.ServerName
		}
		if sink.ServerID != "" {
			files.ServerID = sink.ServerID
		}
		loaded, err := files.Load(reload.Options{}) // read again for each connection
		if err != nil {
			return nil, err
		}
		return loaded.Credentials(), nil
	}
	if !l.Plaintext.Allowed {
		return nil, errors.New("it is to be dialled without TLS, which --sink-insecure has to allow")
	}
	if !l.Plaintext.AnyAddress && !listen.Loopback(sink.Address) {
		return nil, errors.New("--sink-insecure alone is for sinks on loopback; " +
			"add --sink-insecure-any-address if everyone on the way to it may read and change what is sent")
	}
	return insecure.NewCredentials(), nil
}

// dialSinks keeps a stream to each sink that the flags or the table name.
func (s *server) dialSinks(ctx context.Context) error {
	named, err := s.options.Legacy.sinks()
	if err != nil {
		return err
	}
	s.sinks.Set("flags", named)
	return s.sinks.Run(ctx)
}

// sinksOfTable says how this server shares the sinks of the table with others.
func (s *server) sinksOfTable() sinks.Options {
	return sinks.Options{Server: s.nameAmongServers(), Poll: s.options.Poll, Dial: s.toDial, States: s.sinkStates, Seen: s.everySink.seen, LetGo: s.options.Legacy.LetGo}
}

// name is this server's name in the mesh.
func (s *server) name() string {
	if s.options.Name != "" {
		return s.options.Name
	}
	host, err := os.Hostname()
	if err != nil {
		return "mcp-server"
	}
	return host
}

// nameAmongServers tells this server apart from others with its name.
func (s *server) nameAmongServers() string { return s.name() + " " + s.publisher.ID()[:4] }

// sinkStates are the states of the dialled sinks, by address.
func (s *server) sinkStates() map[string]sinks.State {
	states := map[string]sinks.State{}
	for _, one := range s.sinks.States() {
		states[one.Address] = sinks.State{Connected: one.Connected, Since: one.Since, Error: one.Error}
	}
	return states
}

// everySink has what all servers reported of the table's sinks, as of the last read of the
// database.
type everySink struct {
	mu  sync.Mutex
	all []sinks.Status
}

func (e *everySink) seen(all []sinks.Status) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = all
}

func (e *everySink) list() []sinks.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]sinks.Status{}, e.all...)
}

// sinksTold lists the sinks of the table at all servers, and those of this server's flags.
func (s *server) sinksTold() (told []*adminv1.SinkStatus) {
	for _, one := range s.everySink.list() {
		status := &adminv1.SinkStatus{Address: one.Address, Server: one.Server, Dials: one.Dials, Connected: one.Connected, Error: one.Error}
		if one.Since != nil {
			status.Since = stamp.Of(*one.Since)
		}
		if one.LetGoAt != nil {
			status.LetGoAt = stamp.Of(*one.LetGoAt)
		}
		told = append(told, status)
	}
	for _, one := range s.sinks.States() {
		if slices.Contains(s.options.Legacy.Sinks, one.Address) { // a sink that both name counts as the flags'
			told = append(told, &adminv1.SinkStatus{
				Address: one.Address, Server: s.nameAmongServers(), OfFlags: true, Dials: true, Connected: one.Connected, Since: stamp.Of(one.Since), Error: one.Error,
			})
		}
	}
	return told
}

// toDial takes over the sinks of the table.
func (s *server) toDial(list []sinks.Sink) {
	var sinks []legacy.Sink
	for _, sink := range list {
		sinks = append(sinks, legacy.Sink(sink))
	}
	s.sinks.Set("table", sinks)
}

// newLegacy returns the service for sinks of the first generation.
func (s *server) newLegacy() *legacy.Source {
	return legacy.NewSource(legacy.Config{
		Open:        s.views.Subscribe,
		Everything:  s.publisher.Subscribe,
		Credentials: s.options.Legacy.credentials,
		Budgets:     s.budgets,
		Reader:      readerOf,
		MaxMessage:  s.options.Legacy.MaxMessage, Clients: s.clients, Metrics: s.metrics, Log: s.options.Log,
	})
}

// sinksPage shows the dialled sinks, and all streams to sinks.
func (s *server) sinksPage() monitor.Page {
	return monitor.Page{Path: "/sinks", About: "Lists the sinks that this server dials, those of mesh.sinks at all servers, and all streams to sinks.", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		monitor.WriteJSON(w, struct {
			Dialled []legacy.SinkState `json:"dialled"`
			Table   []sinks.Status     `json:"table"`
			Streams []legacy.Stream    `json:"streams"`
		}{s.sinks.States(), s.everySink.list(), s.legacy.Streams()})
	})}
}
