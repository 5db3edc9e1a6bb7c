package gatewayapi

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Authorization says which service decides about the requests of a rule, and what both are told.
type Authorization struct {
	Host string
	Port uint32 // 0 for its only one
	GRPC bool   // it speaks Envoy's protocol; otherwise HTTP
	// Path begins the paths that it is asked for, over HTTP.
	Path string
	// Told are headers of requests that it is told. Over HTTP it is told some in any case. Over gRPC it
	// is told all, if there are none here.
	Told []string
	// Taken are headers of its answers that requests go on with, over HTTP; all if there are none.
	Taken []string
	// Body is how many bytes of a body it is told; 0 for none. Requests with a longer one are refused.
	Body uint32
	// Timeout bounds its answer; 0 if the rule has no timeout for requests.
	Timeout time.Duration
}

type externalAuthSpec struct {
	Protocol   string      `json:"protocol"`
	BackendRef backendSpec `json:"backendRef"`
	GRPC       struct {
		AllowedHeaders []string `json:"allowedHeaders"`
	} `json:"grpc"`
	HTTP struct {
		Path                   string   `json:"path"`
		AllowedHeaders         []string `json:"allowedHeaders"`
		AllowedResponseHeaders []string `json:"allowedResponseHeaders"`
	} `json:"http"`
	ForwardBody struct {
		MaxSize uint32 `json:"maxSize"`
	} `json:"forwardBody"`
}

// authorizations are those of a rule, in the order of its filters. It is not ok if one of them has nobody
// to ask: then nothing may pass.
func (c *conversion) authorizations(rule ruleSpec, at string) (by []*Authorization, ok bool) {
	ok = true
	for i, f := range rule.Filters {
		if f.ExternalAuth == nil {
			continue
		}
		one := c.authorization(f.ExternalAuth, fmt.Sprintf("%s.filters[%d].externalAuth", at, i))
		if one == nil {
			ok = false
			continue
		}
		if d := duration(or(rule.Timeouts.Request, "")); d != nil {
			one.Timeout = d.AsDuration()
		}
		by = append(by, one)
	}
	if !ok {
		return nil, false
	}
	return by, true
}

// authorization is what a filter says; nil if there is nobody to ask.
func (c *conversion) authorization(in *externalAuthSpec, at string) *Authorization {
	to := c.asked(in.BackendRef, at+".backendRef")
	if to == nil {
		return nil
	}
	to.Body, to.GRPC = in.ForwardBody.MaxSize, in.Protocol == "GRPC"
	if to.GRPC {
		to.Told = in.GRPC.AllowedHeaders
		return to
	}
	to.Told, to.Taken = in.HTTP.AllowedHeaders, in.HTTP.AllowedResponseHeaders
	if path := strings.Trim(in.HTTP.Path, "/"); path != "" {
		to.Path = "/" + path
	}
	return to
}

// asked is the service that a filter names; nil if the route may not name it, or there is none.
func (c *conversion) asked(b backendSpec, at string) *Authorization {
	host, wrong := c.permitted(b.resolved("", "Service", c.route.Resource.Namespace))
	if wrong == (fault{}) && !c.world.Known(host) {
		wrong = fault{reasonNoBackend, "there is no service " + host}
	}
	if wrong != (fault{}) {
		c.report(at, wrong.message+": nobody can be asked, and requests that the rule matches are answered with 500")
		c.lost(wrong.reason, at, wrong.message)
		return nil
	}
	return &Authorization{Host: host, Port: b.Port}
}

// Authorizers are the services that are asked about requests, each host once.
func (r *Rules) Authorizers() (hosts []string) {
	for _, e := range r.extras {
		for _, by := range e.Authorizations {
			hosts = withOne(hosts, by.Host)
		}
	}
	slices.Sort(hosts)
	return hosts
}
