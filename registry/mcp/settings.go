package mcp

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/kinds"
	client "github.com/pgmesh/pgmesh/mcp-client/mcp"
	"github.com/pgmesh/pgmesh/registry/parameters"
)

// Scheme is that of the URLs of MCP servers.
const Scheme = "mcp"

// settings are what a URL says.
type settings struct {
	name       string
	servers    []string
	protocol   client.Protocol
	kinds      []*kinds.Kind
	namespaces []string // none: all
	set        string   // of registries that have services together; "": none
	within     string   // the namespace that this program tells the server it runs in
	dial       dial.Options
	holdEmpty  time.Duration
	patience   time.Duration
}

const (
	defaultPort      = "15020"
	largestPort      = 65535
	defaultPatience  = 5 * time.Second
	defaultHoldEmpty = 30 * time.Second
)

// known are the parameters that a URL may have.
var known = map[string]parameters.Parameter[settings]{
	"name":                 parameters.Text(func(s *settings) *string { return &s.name }),
	"protocol":             parameters.Func(func(s *settings, value string) error { return s.protocol.Set(value) }),
	"kinds":                parameters.Func(readKinds),
	"namespaces":           parameters.Func(readNamespaces),
	"set":                  parameters.Text(func(s *settings) *string { return &s.set }),
	"mcp-namespace":        parameters.Text(func(s *settings) *string { return &s.within }),
	"insecure":             parameters.YesOrNo(func(s *settings, yes bool) { s.dial.Plaintext.Allowed = yes }),
	"insecure-any-address": parameters.YesOrNo(func(s *settings, yes bool) { s.dial.Plaintext.AnyAddress = yes }),
	"tls-ca":               parameters.Text(func(s *settings) *string { return &s.dial.TLS.CA }),
	"tls-cert":             parameters.Text(func(s *settings) *string { return &s.dial.TLS.Cert }),
	"tls-key":              parameters.Text(func(s *settings) *string { return &s.dial.TLS.Key }),
	"tls-server-name":      parameters.Text(func(s *settings) *string { return &s.dial.TLS.ServerName }),
	"tls-server-id":        parameters.Text(func(s *settings) *string { return &s.dial.TLS.ServerID }),
	"token-file":           parameters.Text(func(s *settings) *string { return &s.dial.TokenFile }),
	"hold-empty":           parameters.Duration(0, time.Hour, func(s *settings) *time.Duration { return &s.holdEmpty }),
	"timeout":              parameters.Duration(100*time.Millisecond, time.Minute, func(s *settings) *time.Duration { return &s.patience }),
}

// read reads a URL: mcp://bridge.example:15020?kinds=serviceentries.
func read(u *url.URL) (*settings, error) {
	s := &settings{protocol: client.Auto, kinds: []*kinds.Kind{serviceEntry}, holdEmpty: defaultHoldEmpty, patience: defaultPatience}
	if err := parameters.Read(s, u, known); err != nil {
		return nil, err
	}
	return s, s.complete(u)
}

func (s *settings) complete(u *url.URL) error {
	switch {
	case u.Host == "":
		return errors.New("it names no server: write mcp://bridge.example:15020")
	case u.Path != "" && u.Path != "/":
		return fmt.Errorf("%s: a server has no path: write mcp://bridge.example:15020", u.Path)
	case u.User != nil:
		return errors.New("credentials do not belong into a URL, which others can read: write the token to a file, and name that with token-file")
	}
	if err := s.readServers(u.Host); err != nil {
		return err
	}
	s.name = cmp.Or(s.name, Scheme)
	if !kinds.ValidNamespace(s.name) {
		return fmt.Errorf("%q cannot be the name of a registry: give it one with name, of lower-case letters, digits and -", s.name)
	}
	return s.checkTransport()
}

// readServers reads addresses with commas between.
func (s *settings) readServers(all string) error {
	for server := range strings.SplitSeq(all, ",") {
		name, port, err := net.SplitHostPort(server)
		if err != nil {
			name, port = strings.Trim(server, "[]"), defaultPort
		}
		if n, err := strconv.Atoi(port); name == "" || err != nil || n < 1 || n > largestPort {
			return fmt.Errorf("%q is no address of a server: write HOST:PORT, several with commas between", server)
		}
		s.servers = append(s.servers, net.JoinHostPort(name, port))
	}
	return nil
}

// checkTransport has the rules of the flags of all programs, in the words of a URL.
func (s *settings) checkTransport() error {
	plaintext, tls := s.dial.Plaintext, s.dial.TLS
	remote := slices.IndexFunc(s.servers, func(server string) bool { return !listen.Loopback(server) })
	switch {
	case plaintext.AnyAddress && !plaintext.Allowed:
		return errors.New("insecure-any-address says where insecure holds: give insecure=true with it, or leave it out")
	case plaintext.Allowed && tls.Given():
		return errors.New("insecure and the parameters for TLS exclude each other: choose one way to speak")
	case plaintext.Allowed && !plaintext.AnyAddress && remote >= 0:
		return fmt.Errorf("insecure alone is for servers on loopback, which %s is not: add insecure-any-address=true if everyone on the way may read and change what it sends",
			s.servers[remote])
	case (tls.Cert == "") != (tls.Key == ""):
		return errors.New("a certificate and its key belong together: give tls-cert and tls-key")
	}
	return nil
}

// readKinds reads which kinds are taken. The MeshConfig and the MeshNetworks are those of a whole mesh,
// and this one has its own.
func readKinds(s *settings, value string) error {
	s.kinds = nil
	if value == "*" {
		s.kinds = slices.DeleteFunc(kinds.All(), func(k *kinds.Kind) bool { return k.Bare })
		return nil
	}
	for word := range strings.SplitSeq(value, ",") {
		kind, err := kinds.ByName(word)
		if err != nil {
			return err
		}
		if kind.Bare {
			return fmt.Errorf("a %s configures a mesh as a whole, and this mesh has its own: leave it out", kind.Name)
		}
		if !slices.Contains(s.kinds, kind) {
			s.kinds = append(s.kinds, kind)
		}
	}
	return nil
}

func readNamespaces(s *settings, value string) error {
	for name := range strings.SplitSeq(value, ",") {
		if !kinds.ValidNamespace(name) {
			return fmt.Errorf("%q is no name of a namespace: write them as a,b", name)
		}
		s.namespaces = append(s.namespaces, name)
	}
	return nil
}

// asked are the kinds that the server is asked for: those that are taken, and the workloads that
// services select.
func (s *settings) asked() []*kinds.Kind {
	if slices.Contains(s.kinds, serviceEntry) && !slices.Contains(s.kinds, workloadEntry) {
		return append(slices.Clip(s.kinds), workloadEntry)
	}
	return s.kinds
}

// takes reports whether a resource of the server becomes one here.
func (s *settings) takes(k kinds.Key) bool {
	return slices.Contains(s.kinds, k.Kind) && (len(s.namespaces) == 0 || slices.Contains(s.namespaces, k.Namespace))
}

func lookup(name string) *kinds.Kind {
	kind, _ := kinds.Lookup("networking.istio.io", name)
	return kind
}

var (
	serviceEntry  = lookup("ServiceEntry")
	workloadEntry = lookup("WorkloadEntry")
)
