package kubernetes

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/registry/parameters"
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
	config      bool     // whether resources of the mesh's kinds are,
	status      bool     // and whether what became of them is written to their status
	secrets     []string // namespaces whose Secrets gateways may have
	domain      string   // what hosts end with, after svc
	trustDomain string   // of the identities of Pods; "": the mesh's own
	network     string   // of Pods whose labels name none
	set         string   // of clusters that have services together; "": none
	addresses   bool     // whether services have their ClusterIPs
	patience    time.Duration
	look        time.Duration // how soon a kind is noticed that the cluster has learnt, or forgotten
}

const (
	defaultDomain   = "cluster.local"
	defaultPatience = 5 * time.Second
	lookEvery       = 20 * time.Second
	mostNamespaces  = 50 // each of them has lists of its own
)

// known are the parameters that a URL may have.
var known = map[string]parameters.Parameter[settings]{
	"name":         parameters.Text(func(s *settings) *string { return &s.name }),
	"context":      parameters.Text(func(s *settings) *string { return &s.context }),
	"namespaces":   parameters.Func(func(s *settings, value string) error { return readNamespaces(&s.namespaces, value) }),
	"services":     parameters.YesOrNo(func(s *settings, yes bool) { s.services = yes }),
	"pods":         parameters.YesOrNo(func(s *settings, yes bool) { s.pods = yes }),
	"nodes":        parameters.YesOrNo(func(s *settings, yes bool) { s.nodes = yes }),
	"config":       parameters.YesOrNo(func(s *settings, yes bool) { s.config = yes }),
	"status":       parameters.YesOrNo(func(s *settings, yes bool) { s.status = yes }),
	"secrets":      parameters.Func(func(s *settings, value string) error { return readNamespaces(&s.secrets, value) }),
	"domain":       name(func(s *settings) *string { return &s.domain }),
	"trust-domain": name(func(s *settings) *string { return &s.trustDomain }),
	"network":      parameters.Text(func(s *settings) *string { return &s.network }),
	"set":          name(func(s *settings) *string { return &s.set }),
	"addresses":    parameters.YesOrNo(func(s *settings, yes bool) { s.addresses = yes }),
	"timeout":      parameters.Duration(100*time.Millisecond, time.Minute, func(s *settings) *time.Duration { return &s.patience }),
}

// read reads a URL: kubernetes:///etc/pgmesh/kubeconfig?context=prod.
func read(u *url.URL) (*settings, error) {
	s := &settings{kubeconfig: u.Path, services: true, pods: true, nodes: true, config: true, addresses: true, domain: defaultDomain, patience: defaultPatience, look: lookEvery}
	if err := parameters.Read(s, u, known); err != nil {
		return nil, err
	}
	return s, s.complete(u)
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
	if !s.services && !s.config && len(s.secrets) == 0 {
		return errors.New("it reads neither services nor config: leave out one of them")
	}
	if s.status && !s.config {
		return errors.New("status: it says what became of config, which is not read: leave out one of them")
	}
	s.name = cmp.Or(s.name, Scheme)
	if !kinds.ValidNamespace(s.name) {
		return fmt.Errorf("%q cannot be the name of a registry: give it one with name, of lower-case letters, digits and -", s.name)
	}
	return nil
}

// dnsName has labels of DNS with points between them.
var dnsName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func name(at func(*settings) *string) parameters.Parameter[settings] {
	return parameters.Func(func(s *settings, value string) error {
		if !dnsName.MatchString(value) {
			return fmt.Errorf("%q is no name of DNS", value)
		}
		*at(s) = value
		return nil
	})
}

func readNamespaces(into *[]string, value string) error {
	var all []string
	for name := range strings.SplitSeq(value, ",") {
		if !kinds.ValidNamespace(name) {
			return fmt.Errorf("%q is no name of a namespace: write them as a,b", name)
		}
		all = append(all, name)
	}
	slices.Sort(all)
	if *into = slices.Compact(all); len(*into) > mostNamespaces {
		return fmt.Errorf("there are more than %d namespaces", mostNamespaces)
	}
	return nil
}
