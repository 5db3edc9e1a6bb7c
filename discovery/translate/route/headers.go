package route

import (
	"maps"
	"slices"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	networking "istio.io/api/networking/v1alpha3"
)

// headerOps are header operations as Envoy has them. Setting the host is not one of them; it
// rewrites the authority.
type headerOps struct {
	requestAdd, responseAdd       []*corev3.HeaderValueOption
	requestRemove, responseRemove []string
	authority                     string
}

func headerOperations(in *networking.Headers) headerOps {
	request, response := in.GetRequest(), in.GetResponse()
	ops := headerOps{
		requestAdd:     additions(request),
		responseAdd:    additions(response),
		requestRemove:  removals(request),
		responseRemove: removals(response),
		authority:      authorityIn(request.GetSet()),
	}
	if ops.authority == "" {
		ops.authority = authorityIn(request.GetAdd())
	}
	return ops
}

// additions overwrite what is to be set, then append what is to be added.
func additions(in *networking.Headers_HeaderOperations) []*corev3.HeaderValueOption {
	out := values(nil, in.GetSet(), corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD)
	return values(out, in.GetAdd(), corev3.HeaderValueOption_APPEND_IF_EXISTS_OR_ADD)
}

func values(out []*corev3.HeaderValueOption, headers map[string]string, how corev3.HeaderValueOption_HeaderAppendAction) []*corev3.HeaderValueOption {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if !reservedHeader(name) {
			out = append(out, &corev3.HeaderValueOption{
				Header: &corev3.HeaderValue{Key: name, Value: headers[name]}, AppendAction: how,
			})
		}
	}
	return out
}

func removals(in *networking.Headers_HeaderOperations) []string {
	var out []string
	for _, name := range in.GetRemove() {
		if !reservedHeader(name) {
			out = append(out, name)
		}
	}
	return out
}

// reservedHeader reports whether only Envoy may write a header.
func reservedHeader(name string) bool {
	return strings.HasPrefix(name, ":") || strings.EqualFold(name, "host")
}

func authorityIn(headers map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if strings.EqualFold(name, ":authority") || strings.EqualFold(name, "host") {
			return headers[name]
		}
	}
	return ""
}
