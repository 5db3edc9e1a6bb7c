package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
	"github.com/pgmesh/pgmesh/kinds"
)

// Scheme is that of the URLs of clusters.
const Scheme = "kubernetes"

// settings are what a URL says.
type settings struct {
	name        string
	kubeconfig  string // a file; "": we are a Pod
	context     string
	namespaces  []string // none: all
	services    bool     // whether Services are read,
	pods        bool     // with what Pods say of them,
	nodes       bool     // and where Nodes are
	config      bool     // whether resources of the mesh's kinds are
	domain      string   // what hosts end with, after svc
	trustDomain string   // of the identities of Pods; "": the mesh's own
	network     string   // of Pods whose labels name none
	patience    time.Duration
	look        time.Duration // how soon a kind is noticed that the cluster has learnt, or forgotten
}

const (
	defaultDomain   = "cluster.local"
	defaultPatience = 5 * time.Second
	lookEvery       = 20 * time.Second
	mostNamespaces  = 50 // each of them has lists of its own
)

// parameter reads one parameter of a URL.
type parameter func(s *settings, value string) error

// parameters are those that a URL may have.
var parameters = map[string]parameter{
	"name":         text(func(s *settings) *string { return &s.name }),
	"context":      text(func(s *settings) *string { return &s.context }),
	"namespaces":   readNamespaces,
	"services":     yesOrNo(func(s *settings) *bool { return &s.services }),
	"pods":         yesOrNo(func(s *settings) *bool { return &s.pods }),
	"nodes":        yesOrNo(func(s *settings) *bool { return &s.nodes }),
	"config":       yesOrNo(func(s *settings) *bool { return &s.config }),
	"domain":       name(func(s *settings) *string { return &s.domain }),
	"trust-domain": name(func(s *settings) *string { return &s.trustDomain }),
	"network":      text(func(s *settings) *string { return &s.network }),
	"timeout":      readTimeout,
}

// read reads a URL: kubernetes:///etc/pgmesh/kubeconfig?context=prod.
func read(u *url.URL) (*settings, error) {
	s := &settings{kubeconfig: u.Path, services: true, pods: true, nodes: true, config: true, domain: defaultDomain, patience: defaultPatience, look: lookEvery}
	given, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("its parameters cannot be read: %w", err)
	}
	for key, values := range given {
		take, known := parameters[key]
		if !known {
			return nil, unknown(key)
		}
		if len(values) > 1 {
			return nil, errors.New(key + " is given twice")
		}
		if err := take(s, values[0]); err != nil {
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
	case u.Host != "":
		return fmt.Errorf("it names the host %s, and where a cluster is stands in a kubeconfig: write kubernetes:///etc/pgmesh/kubeconfig, or kubernetes:// in a Pod", u.Host)
	case s.kubeconfig == "/":
		s.kubeconfig = ""
	case s.kubeconfig != "" && !strings.HasPrefix(s.kubeconfig, "/"):
		return errors.New("name the kubeconfig by its whole path: kubernetes:///etc/pgmesh/kubeconfig")
	}
	if s.kubeconfig == "" && s.context != "" {
		return errors.New("context: a Pod has none: name a kubeconfig, or leave it out")
	}
	if !s.services && !s.config {
		return errors.New("it reads neither services nor config: leave out one of them")
	}
	s.name = cmp.Or(s.name, Scheme)
	if !kinds.ValidNamespace(s.name) {
		return fmt.Errorf("%q cannot be the name of a registry: give it one with name, of lower-case letters, digits and -", s.name)
	}
	return nil
}

func text(at func(*settings) *string) parameter {
	return func(s *settings, value string) error {
		*at(s) = value
		return nil
	}
}

// dnsName has labels of DNS with points between them.
var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func name(at func(*settings) *string) parameter {
	return func(s *settings, value string) error {
		if !dnsName.MatchString(value) {
			return fmt.Errorf("%q is no name of DNS", value)
		}
		*at(s) = value
		return nil
	}
}

func yesOrNo(at func(*settings) *bool) parameter {
	return func(s *settings, value string) error {
		yes, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", value)
		}
		*at(s) = yes
		return nil
	}
}

func readNamespaces(s *settings, value string) error {
	for name := range strings.SplitSeq(value, ",") {
		if !kinds.ValidNamespace(name) {
			return fmt.Errorf("%q is no name of a namespace: write them as a,b", name)
		}
		s.namespaces = append(s.namespaces, name)
	}
	slices.Sort(s.namespaces)
	if s.namespaces = slices.Compact(s.namespaces); len(s.namespaces) > mostNamespaces {
		return fmt.Errorf("there are more than %d: leave it out to read all", mostNamespaces)
	}
	return nil
}

func readTimeout(s *settings, value string) error {
	d, err := time.ParseDuration(value)
	if err != nil || d < 100*time.Millisecond || d > time.Minute {
		return fmt.Errorf("%q is no time from 100ms to 1m", value)
	}
	s.patience = d
	return nil
}
