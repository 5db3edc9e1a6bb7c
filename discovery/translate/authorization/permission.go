package authorization

import (
	"net/netip"
	"strconv"
	"strings"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	rbacv3 "github.com/envoyproxy/go-control-plane/envoy/config/rbac/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	uritemplatev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/path/match/uri_template/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// toHost asks for the host of a request, in any capitals. With a port, or a dot at its end, it is
// still the same host: who is to be refused may write it so, and who is to be let in has no need
// to.
func (r reading) toHost(inAnyForm bool) func(value string) *rbacv3.Permission {
	return func(value string) *rbacv3.Permission {
		switch {
		case r.on == onTCP:
			return nil
		case inAnyForm && !strings.HasSuffix(value, "*"):
			return hostInAnyForm(value)
		}
		header := headerLike(":authority", value)
		if m := header.GetStringMatch(); m != nil {
			m.IgnoreCase = true
		}
		return &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: header}}
	}
}

// hostInAnyForm asks for a host, which may begin with "*", in all its forms. It uses no regular
// expressions: Envoys of older agents refuse long ones.
func hostInAnyForm(value string) *rbacv3.Permission {
	host, port, named := cutPort(value)
	host = strings.TrimSuffix(host, ".")
	whole, begins := message.Exactly, message.BeginningWith
	if end, isEnd := strings.CutPrefix(host, "*"); isEnd {
		host, whole, begins = end, message.EndingWith, message.Containing
	}
	forms := []*matcherv3.StringMatcher{whole(host), whole(host + "."), begins(host + ":"), begins(host + ".:")}
	if named {
		forms = []*matcherv3.StringMatcher{whole(host + ":" + port), whole(host + ".:" + port)}
	}
	list := make([]*rbacv3.Permission, len(forms))
	for i, form := range forms {
		form.IgnoreCase = true
		list[i] = &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: &routev3.HeaderMatcher{
			Name: ":authority", HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: form},
		}}}
	}
	return permissions.one(list)
}

// cutPort takes the port from a host that names one.
func cutPort(value string) (host, port string, named bool) {
	host, port, named = cutLast(value, ":")
	if _, err := strconv.ParseUint(port, 10, 16); !named || err != nil {
		return value, "", false
	}
	return host, port, true
}

func (r reading) byMethod(value string) *rbacv3.Permission {
	if r.on == onTCP {
		return nil
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_Header{Header: headerLike(":method", value)}}
}

// pathTemplate writes templates as Envoy does: {*} stands for one segment of a path, {**} for any
// number.
var pathTemplate = strings.NewReplacer("{*}", "*", "{**}", "**")

func (r reading) toPath(value string) *rbacv3.Permission {
	if r.on == onTCP {
		return nil
	}
	if template := pathTemplate.Replace(value); template != value {
		return &rbacv3.Permission{Rule: &rbacv3.Permission_UriTemplate{UriTemplate: &corev3.TypedExtensionConfig{
			Name: "uri-template", TypedConfig: message.Pack(&uritemplatev3.UriTemplateMatchConfig{PathTemplate: template}),
		}}}
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_UrlPath{UrlPath: &matcherv3.PathMatcher{
		Rule: &matcherv3.PathMatcher_Path{Path: like(value)},
	}}}
}

func toPort(value string) *rbacv3.Permission {
	port, err := strconv.ParseUint(value, 10, 16)
	if err != nil {
		return nil
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationPort{DestinationPort: uint32(port)}}
}

func toAddress(value string) *rbacv3.Permission {
	block := cidr(value)
	if block == nil {
		return nil
	}
	return &rbacv3.Permission{Rule: &rbacv3.Permission_DestinationIp{DestinationIp: block}}
}

func toServerName(value string) *rbacv3.Permission {
	return &rbacv3.Permission{Rule: &rbacv3.Permission_RequestedServerName{RequestedServerName: like(value)}}
}

// notedByFilter asks for what a filter of Envoy's has noted of a request or connection. The key is
// experimental.envoy.filters.a.b[name]. A value in brackets is one of a list.
func notedByFilter(key string, values []string) *rbacv3.Permission {
	filter, name, found := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(key, "experimental."), "]"), "[")
	if !found || name == "" {
		return nil
	}
	wanted := make([]*matcherv3.ValueMatcher, len(values))
	for i, value := range values {
		if inside, isList := strings.CutPrefix(value, "["); isList && strings.HasSuffix(inside, "]") {
			wanted[i] = inList(valueLike(strings.Trim(value, "[]")))
		} else {
			wanted[i] = valueLike(value)
		}
	}
	//nolint:staticcheck // Istio's shape, which EnvoyFilters patch
	return &rbacv3.Permission{Rule: &rbacv3.Permission_Metadata{Metadata: noted(filter, []string{name}, oneValue(wanted))}}
}

// headerLike asks for a header. "*" is any value.
func headerLike(name, value string) *routev3.HeaderMatcher {
	if value == "*" {
		return &routev3.HeaderMatcher{Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true}}
	}
	return &routev3.HeaderMatcher{Name: name, HeaderMatchSpecifier: &routev3.HeaderMatcher_StringMatch{StringMatch: like(value)}}
}

// like reads a value that may begin or end with "*". "*" alone is anything but nothing.
func like(value string) *matcherv3.StringMatcher {
	end, isEnd := strings.CutPrefix(value, "*")
	begin, isBegin := strings.CutSuffix(value, "*")
	switch {
	case value == "*":
		return message.Matching(".+")
	case isEnd:
		return message.EndingWith(end)
	case isBegin:
		return message.BeginningWith(begin)
	default:
		return message.Exactly(value)
	}
}

// cidr reads an address or a range of them. It is nil for anything else.
func cidr(text string) *corev3.CidrRange {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		address, err := netip.ParseAddr(text)
		if err != nil {
			return nil
		}
		prefix = netip.PrefixFrom(address, address.BitLen())
	}
	return &corev3.CidrRange{AddressPrefix: prefix.Addr().String(), PrefixLen: wrapperspb.UInt32(uint32(prefix.Bits()))}
}

// noted asks for something in the metadata that a filter has left.
func noted(filter string, path []string, value *matcherv3.ValueMatcher) *matcherv3.MetadataMatcher {
	out := &matcherv3.MetadataMatcher{Filter: filter, Value: value}
	for _, key := range path {
		out.Path = append(out.Path, &matcherv3.MetadataMatcher_PathSegment{
			Segment: &matcherv3.MetadataMatcher_PathSegment_Key{Key: key},
		})
	}
	return out
}

func valueLike(value string) *matcherv3.ValueMatcher { return textValue(like(value)) }

func textValue(m *matcherv3.StringMatcher) *matcherv3.ValueMatcher {
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_StringMatch{StringMatch: m}}
}

// oneValue asks for one of several.
func oneValue(values []*matcherv3.ValueMatcher) *matcherv3.ValueMatcher {
	if len(values) == 1 {
		return values[0]
	}
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_OrMatch{OrMatch: &matcherv3.OrMatcher{ValueMatchers: values}}}
}

// inList asks for a list that has the value.
func inList(value *matcherv3.ValueMatcher) *matcherv3.ValueMatcher {
	return &matcherv3.ValueMatcher{MatchPattern: &matcherv3.ValueMatcher_ListMatch{ListMatch: &matcherv3.ListMatcher{
		MatchPattern: &matcherv3.ListMatcher_OneOf{OneOf: value},
	}}}
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}
