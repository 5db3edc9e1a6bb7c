package gatewayapi

import (
	"encoding/json"
	"strings"

	networking "istio.io/api/networking/v1alpha3"
)

// match converts a match of requests, or of calls of gRPC.
func (c *conversion) match(m matchSpec) *networking.HTTPMatchRequest {
	out := &networking.HTTPMatchRequest{Headers: values(m.Headers, strings.EqualFold), QueryParams: values(m.QueryParams, equal)}
	if c.route.Resource.Kind == KindGRPCRoute {
		out.Uri = call(m)
		return out
	}
	out.Uri = path(m)
	var method string
	if json.Unmarshal(m.Method, &method) == nil && method != "" {
		out.Method = exactly(method)
	}
	return out
}

func exactly(s string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Exact{Exact: s}}
}

func beginning(s string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Prefix{Prefix: s}}
}

func matching(s string) *networking.StringMatch {
	return &networking.StringMatch{MatchType: &networking.StringMatch_Regex{Regex: s}}
}

const (
	exact      = "Exact"
	expression = "RegularExpression"
)

// path is the match of a path. A slash at the end of a prefix does not count.
func path(m matchSpec) *networking.StringMatch {
	value := or(m.Path.Value, "/")
	switch or(m.Path.Type, "PathPrefix") {
	case exact:
		return exactly(value)
	case expression:
		return matching(value)
	default:
		if value != "/" {
			value = strings.TrimSuffix(value, "/")
		}
		return beginning(value)
	}
}

// call is the match of the path that a call of gRPC has, /SERVICE/METHOD. Without a service or a
// method it is any.
func call(m matchSpec) *networking.StringMatch {
	var in callSpec
	_ = json.Unmarshal(m.Method, &in) // a match may have none
	if in.Service == "" && in.Method == "" {
		return beginning("/")
	}
	if or(in.Type, exact) == exact {
		switch {
		case in.Method == "":
			return beginning("/" + in.Service + "/")
		case in.Service != "":
			return exactly("/" + in.Service + "/" + in.Method)
		}
	}
	service, method := in.Service, in.Method
	if service == "" {
		service = "[^/]+"
	}
	if method == "" {
		method = ".+"
	}
	return matching("/" + service + "/" + method)
}

func equal(a, b string) bool { return a == b }

// values are the matches of headers or parameters. Of several for one name the first counts.
func values(list []valueSpec, same func(a, b string) bool) map[string]*networking.StringMatch {
	out := map[string]*networking.StringMatch{}
	for i, v := range list {
		if known(list[:i], v.Name, same) {
			continue
		}
		if or(v.Type, exact) == expression {
			out[v.Name] = matching(v.Value)
		} else {
			out[v.Name] = exactly(v.Value)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func known(list []valueSpec, name string, same func(a, b string) bool) bool {
	for _, v := range list {
		if same(v.Name, name) {
			return true
		}
	}
	return false
}
