package gatewayapi

import (
	"fmt"
	"net/url"
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

// authorization is that of a rule, which may have none. It is not ok if there is nobody to ask: then
// nothing may pass.
func (c *conversion) authorization(rule ruleSpec, index int, at string) (by *Authorization, ok bool) {
	found := false
	for i, f := range rule.Filters {
		if f.ExternalAuth == nil {
			continue
		}
		path := fmt.Sprintf("%s.filters[%d].externalAuth", at, i)
		if found {
			c.onlyOne(index, path)
			return nil, false
		}
		found, by = true, c.authorizationBy(f.ExternalAuth, path)
	}
	if d := duration(or(rule.Timeouts.Request, "")); d != nil && by != nil {
		by.Timeout = d.AsDuration()
	}
	return by, by != nil || !found
}

// onlyOne notes that a rule has another filter beside the one that Envoy can act on.
func (c *conversion) onlyOne(rule int, at string) {
	const wrong = "a rule has one filter of type ExternalAuth: requests that it matches are answered with 500. Have one service ask the others"
	c.report(at, wrong)
	c.drop(rule, wrong)
}

// authorizationBy is what a filter says; nil if there is nobody to ask.
func (c *conversion) authorizationBy(in *externalAuthSpec, at string) *Authorization {
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
	to.Path = pathPrefix(in.HTTP.Path)
	return to
}

// pathPrefix is what begins paths, in the form that Envoy wants: nothing in it ends the path of a request.
func pathPrefix(text string) string {
	text = strings.Trim(text, "/")
	if text == "" {
		return ""
	}
	path := url.URL{Path: "/" + text}
	if plain, err := url.PathUnescape(text); err == nil {
		path = url.URL{Path: "/" + plain, RawPath: "/" + text}
	}
	return path.EscapedPath()
}

// asked is the service that a filter names; nil if the route may not name it, or there is none.
func (c *conversion) asked(b backendSpec, at string) *Authorization {
	host, wrong := c.permitted(b.resolved("", "Service", c.route.Resource.Namespace))
	switch {
	case wrong != (fault{}):
	case IsPoolHost(host):
		wrong = fault{reasonNoKind, "an InferencePool cannot decide about requests: name a Service, a ServiceEntry or a Hostname"}
	case !c.world.Known(host):
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
		if e.Authorization != nil {
			hosts = withOne(hosts, e.Authorization.Host)
		}
	}
	slices.Sort(hosts)
	return hosts
}
