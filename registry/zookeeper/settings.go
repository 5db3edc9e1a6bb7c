package zookeeper

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/parameters"
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

// known are the parameters that a URL may have.
var known = map[string]parameters.Parameter[settings]{
	"path":            parameters.Text(func(s *settings) *string { return &s.path }),
	"name":            parameters.Text(func(s *settings) *string { return &s.name }),
	"format":          parameters.Func(readFormat),
	"namespace":       parameters.Text(func(s *settings) *string { return &s.namespace }),
	"domain":          parameters.Text(func(s *settings) *string { return &s.domain }),
	"digest-file":     parameters.Text(func(s *settings) *string { return &s.digest }),
	"tls":             parameters.YesOrNo(func(s *settings, yes bool) { s.secure = yes }),
	"tls-ca":          parameters.Text(func(s *settings) *string { return &s.tls.CA }),
	"tls-cert":        parameters.Text(func(s *settings) *string { return &s.tls.Cert }),
	"tls-key":         parameters.Text(func(s *settings) *string { return &s.tls.Key }),
	"tls-server-name": parameters.Text(func(s *settings) *string { return &s.tls.ServerName }),
	"protocol":        parameters.Func(readProtocol),
	"port":            parameters.Number(1, largestPort, func(s *settings, n int) { s.port = uint32(n) }),
	"region":          parameters.Text(func(s *settings) *string { return &s.region }),
	"label":           parameters.List(func(s *settings) *[]string { return &s.labels }),
	"watches":         parameters.Func(readWatches),
	"timeout":         parameters.Duration(100*time.Millisecond, time.Minute, func(s *settings) *time.Duration { return &s.patience }),
}

// read reads a URL: zookeeper://one:2181,two:2181/chroot?path=/services.
func read(u *url.URL) (*settings, error) {
	s := &settings{patience: defaultPatience, namespace: "default"}
	if err := parameters.Read(s, u, known); err != nil {
		return nil, err
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

func readFormat(s *settings, value string) error {
	if _, known := defaultPaths[value]; !known {
		return fmt.Errorf("%q is neither curator (instances of Curator's service discovery) nor dubbo (URLs of providers)", value)
	}
	s.format = value
	return nil
}

func readProtocol(s *settings, value string) error {
	if s.protocol = service.Protocol(value); s.protocol == "" {
		return fmt.Errorf("%q is no protocol: write http, http2, grpc, https, tls or tcp", value)
	}
	return nil
}

func readWatches(s *settings, value string) error {
	switch value {
	case "one":
		s.each = false
	case "each":
		s.each = true
	default:
		return fmt.Errorf("%q is neither one (for all nodes, since ZooKeeper 3.6) nor each", value)
	}
	return nil
}
