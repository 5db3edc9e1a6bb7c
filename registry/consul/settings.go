package consul

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// Scheme is that of Consul's URLs.
const Scheme = "consul"

// settings are what a URL says.
type settings struct {
	name        string
	base        *url.URL
	datacenters []string // "*": all; none: the agent's own
	namespace   string   // of Consul
	partition   string
	tags        []string // that an instance must have
	passing     bool     // a warning keeps requests away
	token       string   // a file
	tls         tlsfiles.Client
	domain      string // what hosts end with
	hosts       hosts
	into        string // the namespace of the mesh
	port        uint32 // where clients reach services whose instances have many ports
	watches     int    // over connections of their own
	streams     int    // over HTTP/2
	patience    time.Duration
}

const (
	// defaultWatches leaves half of the 200 connections that an agent allows to others.
	defaultWatches = 100
	// defaultStreams is as many as a large catalog has services. 250 of them share a connection.
	defaultStreams = 10_000
	mostWatches    = 50_000

	defaultPatience = 5 * time.Second
	defaultPort     = 8500
	securePort      = 8501
)

// parameter reads one parameter of a URL.
type parameter func(s *settings, values []string) error

// parameters are those that a URL may have.
var parameters = map[string]parameter{
	"name":            text(func(s *settings) *string { return &s.name }),
	"dc":              func(s *settings, values []string) error { s.datacenters = values; return nil },
	"namespace":       text(func(s *settings) *string { return &s.namespace }),
	"partition":       text(func(s *settings) *string { return &s.partition }),
	"tag":             func(s *settings, values []string) error { s.tags = values; return nil },
	"only-passing":    yesOrNo(func(s *settings) *bool { return &s.passing }),
	"token-file":      text(func(s *settings) *string { return &s.token }),
	"tls":             readTLS,
	"tls-ca":          text(func(s *settings) *string { return &s.tls.CA }),
	"tls-cert":        text(func(s *settings) *string { return &s.tls.Cert }),
	"tls-key":         text(func(s *settings) *string { return &s.tls.Key }),
	"tls-server-name": text(func(s *settings) *string { return &s.tls.ServerName }),
	"domain":          text(func(s *settings) *string { return &s.domain }),
	"hosts":           readHosts,
	"into":            text(func(s *settings) *string { return &s.into }),
	"port":            readPort,
	"watches":         readWatches,
	"timeout":         readTimeout,
}

// read reads a URL: consul://127.0.0.1:8500/?dc=dc1.
func read(u *url.URL) (*settings, error) {
	s := &settings{watches: defaultWatches, streams: defaultStreams, patience: defaultPatience, domain: "consul", hosts: hosts{true, true}, base: &url.URL{Scheme: "http", Path: u.Path}}
	given, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("its parameters cannot be read: %w", err)
	}
	for key, values := range given {
		take, known := parameters[key]
		if !known {
			return nil, unknown(key)
		}
		if len(values) > 1 && key != "dc" && key != "tag" {
			return nil, errors.New(key + " is given twice")
		}
		if err := take(s, values); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
	}
	return s, s.complete(u)
}

func unknown(key string) error {
	all := make([]string, 0, len(parameters))
	for name := range parameters {
		all = append(all, name)
	}
	slices.Sort(all)
	return fmt.Errorf("there is no parameter %s: %s", key, nearest.Hint(key, all, "there are "))
}

func (s *settings) complete(u *url.URL) error {
	switch {
	case u.Hostname() == "":
		return errors.New("it names no agent: write consul://127.0.0.1:8500")
	case u.User != nil:
		return errors.New("a token does not belong into a URL, which others can read: write it to a file, and name that with token-file")
	case (s.tls.Cert == "") != (s.tls.Key == ""):
		return errors.New("a certificate and its key belong together: give tls-cert and tls-key")
	case len(s.datacenters) > 1 && slices.Contains(s.datacenters, "*"):
		return errors.New(`dc: "*" means all datacenters, and others need not be named`)
	}
	port := defaultPort
	if s.secure() {
		s.base.Scheme, port = "https", securePort
	}
	s.base.Host = u.Host
	if u.Port() == "" {
		s.base.Host += ":" + strconv.Itoa(port)
	}
	s.name = cmp.Or(s.name, s.defaultName())
	s.into = cmp.Or(s.into, s.namespace, "default")
	return nil
}

func (s *settings) secure() bool { return s.base.Scheme == "https" || s.tls.Given() }

// defaultName has the datacenter, if there is one, so that one registry for each can be named without
// further ado.
func (s *settings) defaultName() string {
	if len(s.datacenters) == 1 && s.datacenters[0] != "*" {
		return Scheme + "-" + strings.ReplaceAll(s.datacenters[0], "_", "-")
	}
	return Scheme
}

func text(at func(*settings) *string) parameter {
	return func(s *settings, values []string) error {
		*at(s) = values[0]
		return nil
	}
}

func yesOrNo(at func(*settings) *bool) parameter {
	return func(s *settings, values []string) error {
		yes, err := strconv.ParseBool(values[0])
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", values[0])
		}
		*at(s) = yes
		return nil
	}
}

func readTLS(s *settings, values []string) error {
	var yes bool
	if err := yesOrNo(func(*settings) *bool { return &yes })(s, values); err != nil {
		return err
	}
	if yes {
		s.base.Scheme = "https"
	}
	return nil
}

func number(values []string, least, most int) (int, error) {
	n, err := strconv.Atoi(values[0])
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%q is no number from %d to %d", values[0], least, most)
	}
	return n, nil
}

// hosts are the forms of the hosts that services have.
type hosts struct {
	short      bool // web.service.consul
	datacenter bool // web.service.dc1.consul
}

func readHosts(s *settings, values []string) error {
	switch values[0] {
	case "short":
		s.hosts = hosts{short: true}
	case "datacenter":
		s.hosts = hosts{datacenter: true}
	case "both":
		s.hosts = hosts{true, true}
	default:
		return fmt.Errorf("%q is none of short (web.service.consul), datacenter (web.service.dc1.consul) and both", values[0])
	}
	return nil
}

func readPort(s *settings, values []string) error {
	n, err := number(values, 1, 65535)
	s.port = uint32(n)
	return err
}

func readWatches(s *settings, values []string) (err error) {
	s.watches, err = number(values, 0, mostWatches)
	s.streams = s.watches
	return err
}

func readTimeout(s *settings, values []string) error {
	d, err := time.ParseDuration(values[0])
	if err != nil || d < 100*time.Millisecond || d > time.Minute {
		return fmt.Errorf("%q is no time from 100ms to 1m", values[0])
	}
	s.patience = d
	return nil
}
