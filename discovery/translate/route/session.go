package route

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	sessionv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/stateful_session/v3"
	cookiev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/cookie/v3"
	headerv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/stateful_session/header/v3"
	httpv3 "github.com/envoyproxy/go-control-plane/envoy/type/http/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/gatewayapi"
	"github.com/pgmesh/pgmesh/discovery/translate/message"
)

// sessions are those of a rule, one for each of its destinations; nil if it has none. What the rule says
// counts before the policies of its destinations.
func (c Context) sessions(in *networking.HTTPRoute) (by []*gatewayapi.Session) {
	if extras := c.Rule.Extras(in); extras != nil && extras.Session != nil {
		for i, to := range in.GetRoute() {
			by = append(by, extras.Session.Towards(to.GetDestination(), i))
		}
		return by
	}
	for i, to := range in.GetRoute() {
		session := c.Scope.Policies(to.GetDestination().GetHost()).Session()
		if session != nil && by == nil {
			by = make([]*gatewayapi.Session, len(in.GetRoute()))
		}
		if session != nil {
			by[i] = session
		}
	}
	return by
}

// session is that of a destination; nil if it has none.
func (s sending) session(of int) *gatewayapi.Session {
	if s.by == nil {
		return nil
	}
	return s.by[of]
}

// kept are the routes of requests that have a session with one of several destinations already: they go
// there, whatever its weight is. Which one it is, Envoy would decide anew for each request.
func (c Context) kept(in *networking.HTTPRoute, match *networking.HTTPMatchRequest, among sending) (out []*routev3.Route) {
	if len(among.to) < 2 {
		return nil
	}
	for i, by := range among.by {
		if by == nil {
			continue
		}
		one := c.route(in, match, sending{among.to[i : i+1], among.by[i : i+1]})
		if by.ByHeader {
			one.Match.Headers = append(one.GetMatch().GetHeaders(), &routev3.HeaderMatcher{
				Name: by.Name, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
			})
		} else {
			one.Match.Cookies = append(one.GetMatch().GetCookies(), &routev3.CookieMatcher{Name: by.Name, StringMatch: message.Matching(".+")})
		}
		out = append(out, one)
	}
	return out
}

// withSession adds the setting by which requests of a session go to one endpoint. If that is gone, the
// session goes on with another.
func withSession(settings map[string]*anypb.Any, by *gatewayapi.Session, secure bool) map[string]*anypb.Any {
	if by == nil {
		return settings
	}
	if settings == nil {
		settings = map[string]*anypb.Any{}
	}
	settings[SessionFilter] = message.Pack(&sessionv3.StatefulSessionPerRoute{Override: &sessionv3.StatefulSessionPerRoute_StatefulSession{
		StatefulSession: &sessionv3.StatefulSession{SessionState: sessionState(by, secure)},
	}})
	return settings
}

// sessionState is where the endpoint of a session is written. Scripts do not see cookies, and those that
// came by TLS are sent by TLS alone.
func sessionState(by *gatewayapi.Session, secure bool) *corev3.TypedExtensionConfig {
	if by.ByHeader {
		return &corev3.TypedExtensionConfig{
			Name: "envoy.http.stateful_session.header", TypedConfig: message.Pack(&headerv3.HeaderBasedSessionState{Name: by.Name}),
		}
	}
	cookie := &httpv3.Cookie{Name: by.Name, Path: by.Path, Attributes: []*httpv3.CookieAttribute{{Name: "SameSite", Value: "Lax"}}}
	if by.Lifetime > 0 {
		cookie.Ttl = durationpb.New(by.Lifetime)
	}
	if secure {
		cookie.Attributes = append(cookie.Attributes, &httpv3.CookieAttribute{Name: "Secure"})
	}
	return &corev3.TypedExtensionConfig{
		Name: "envoy.http.stateful_session.cookie", TypedConfig: message.Pack(&cookiev3.CookieBasedSessionState{Cookie: cookie}),
	}
}
