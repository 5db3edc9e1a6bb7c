package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/service"
)

// Scheme is that of ZooKeeper's URLs.
const Scheme = "zookeeper"

// The formats in which services are registered.
const (
	formatCurator = "curator"
	formatDubbo   = "dubbo"
)

const (
	defaultPatience = 5 * time.Second
	defaultPort     = "2181"
)

// settings are what a URL says.
type settings struct {
	servers   []string
	chroot    string
	path      string
	root      string // both together
	name      string
	format    string
	namespace string // of the mesh
	domain    string // what hosts end with
	digest    string // a file
	secure    bool
	tls       tlsfiles.Client
	protocol  string   // of instances that do not say
	port      uint32   // where clients reach services, wherever instances listen
	region    string   // of instances that do not say
	labels    []string // parameters of Dubbo's URLs that are labels, beside the usual ones
	each      bool     // each node has a watch of its own
	patience  time.Duration
}

// parameter reads the values of one parameter of a URL.
type parameter func(s *settings, values []string) error

// parameters are those that a URL may have.
var parameters = map[string]parameter{
	"path":            text(func(s *settings) *string { return &s.path }),
	"name":            text(func(s *settings) *string { return &s.name }),
	"format":          readFormat,
	"namespace":       text(func(s *settings) *string { return &s.namespace }),
	"domain":          text(func(s *settings) *string { return &s.domain }),
	"digest-file":     text(func(s *settings) *string { return &s.digest }),
	"tls":             readTLS,
	"tls-ca":          text(func(s *settings) *string { return &s.tls.CA }),
	"tls-cert":        text(func(s *settings) *string { return &s.tls.Cert }),
	"tls-key":         text(func(s *settings) *string { return &s.tls.Key }),
	"tls-server-name": text(func(s *settings) *string { return &s.tls.ServerName }),
	"protocol":        readProtocol,
	"port":            readPort,
	"region":          text(func(s *settings) *string { return &s.region }),
	"label":           func(s *settings, values []string) error { s.labels = values; return nil },
	"watches":         readWatches,
	"timeout":         readTimeout,
}

// read reads a URL: zookeeper://one:2181,two:2181/chroot?path=/services.
func read(u *url.URL) (*settings, error) {
	s := &settings{patience: defaultPatience, namespace: "default"}
	given, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("its parameters cannot be read: %w", err)
	}
	for key, values := range given {
		take, known := parameters[key]
		if !known {
			names := slices.Sorted(maps.Keys(parameters))
			return nil, fmt.Errorf("there is no parameter %s: %s", key, nearest.Hint(key, names, "there are "))
		}
		if len(values) > 1 && key != "label" {
			return nil, errors.New(key + " is given twice")
		}
		if err := take(s, values); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return s, s.complete(u)
}

func (s *settings) complete(u *url.URL) error {
	switch {
	case u.Host == "":
		return errors.New("it names no server: write zookeeper://127.0.0.1:2181")
	case u.User != nil:
		return errors.New("credentials do not belong into a URL, which others can read: write user:password to a file, and name that with digest-file")
	case (s.tls.Cert == "") != (s.tls.Key == ""):
		return errors.New("a certificate and its key belong together: give tls-cert and tls-key")
	}
	s.secure = s.secure || s.tls.Given()
	if err := s.readServers(u.Host); err != nil {
		return err
	}
	if err := s.place(u.Path); err != nil {
		return err
	}
	s.name = cmp.Or(s.name, s.defaultName())
	s.domain = strings.ToLower(cmp.Or(strings.Trim(s.domain, "."), s.defaultName()))
	switch {
	case !kinds.ValidNamespace(s.name):
		return fmt.Errorf("%q cannot be the name of a registry: give it one with name, of lower-case letters, digits and -", s.name)
	case !kinds.ValidNamespace(s.namespace):
		return fmt.Errorf("%q cannot be a namespace of the mesh: name one with namespace, of lower-case letters, digits and -", s.namespace)
	case !validHost(s.domain):
		return fmt.Errorf("%q cannot be what hosts end with: write domain as in DNS", s.domain)
	}
	return nil
}

// readServers reads addresses as ZooKeeper's clients take them: one:2181,two:2181.
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

// place finds the node below which services are.
func (s *settings) place(chroot string) error {
	s.chroot = strings.TrimSuffix(chroot, "/")
	if s.format == "" && path.Base(s.path) == formatDubbo {
		s.format = formatDubbo
	}
	s.format = cmp.Or(s.format, formatCurator)
	s.path = cmp.Or(s.path, defaultPaths[s.format])
	s.root = s.chroot + strings.TrimSuffix(s.path, "/")
	for what, at := range map[string]string{"path": s.path, "the path of the URL, which is ZooKeeper's chroot,": chroot} {
		if at != "" && (at[0] != '/' || path.Clean(at) != strings.TrimSuffix(at, "/") && at != "/" || strings.ContainsRune(at, 0)) {
			return fmt.Errorf("%s is %q, and has to be that of a node: write it as in /services", what, at)
		}
	}
	if s.root == "" {
		return errors.New("path: services cannot be directly below /, where ZooKeeper has nodes of its own")
	}
	return nil
}

var defaultPaths = map[string]string{formatCurator: "/services", formatDubbo: "/dubbo"}

// defaultName tells the services of Dubbo from others in the same ZooKeeper.
func (s *settings) defaultName() string {
	if s.format == formatDubbo {
		return formatDubbo
	}
	return Scheme
}

func text(at func(*settings) *string) parameter {
	return func(s *settings, values []string) error {
		*at(s) = values[0]
		return nil
	}
}

func readFormat(s *settings, values []string) error {
	if _, known := defaultPaths[values[0]]; !known {
		return fmt.Errorf("%q is neither curator (instances of Curator's service discovery) nor dubbo (URLs of providers)", values[0])
	}
	s.format = values[0]
	return nil
}

func readTLS(s *settings, values []string) (err error) {
	if s.secure, err = strconv.ParseBool(values[0]); err != nil {
		return fmt.Errorf("%q is neither true nor false", values[0])
	}
	return nil
}

func readProtocol(s *settings, values []string) error {
	if s.protocol = service.Protocol(values[0]); s.protocol == "" {
		return fmt.Errorf("%q is no protocol: write http, http2, grpc, https, tls or tcp", values[0])
	}
	return nil
}

func readPort(s *settings, values []string) error {
	n, err := strconv.Atoi(values[0])
	if err != nil || n < 1 || n > largestPort {
		return fmt.Errorf("%q is no number from 1 to %d", values[0], largestPort)
	}
	s.port = uint32(n)
	return nil
}

func readWatches(s *settings, values []string) error {
	switch values[0] {
	case "one":
		s.each = false
	case "each":
		s.each = true
	default:
		return fmt.Errorf("%q is neither one (for all nodes, since ZooKeeper 3.6) nor each", values[0])
	}
	return nil
}

func readTimeout(s *settings, values []string) error {
	d, err := time.ParseDuration(values[0])
	if err != nil || d < 100*time.Millisecond || d > time.Minute {
		return fmt.Errorf("%q is no time from 100ms to 1m", values[0])
	}
	s.patience = d
	return nil
}
