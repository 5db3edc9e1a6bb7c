package route

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	networking "istio.io/api/networking/v1alpha3"
)

var redirectCodes = map[uint32]routev3.RedirectAction_RedirectResponseCode{
	0:   routev3.RedirectAction_MOVED_PERMANENTLY,
	301: routev3.RedirectAction_MOVED_PERMANENTLY,
	302: routev3.RedirectAction_FOUND,
	303: routev3.RedirectAction_SEE_OTHER,
	307: routev3.RedirectAction_TEMPORARY_REDIRECT,
	308: routev3.RedirectAction_PERMANENT_REDIRECT,
}

// redirect tells the client to ask elsewhere. A code of redirection that Envoy lacks, such as 304,
// becomes 301.
func (c Context) redirect(in *networking.HTTPRedirect, match *networking.HTTPMatchRequest) *routev3.Route_Redirect {
	out := &routev3.RedirectAction{HostRedirect: in.GetAuthority(), ResponseCode: redirectCodes[in.GetRedirectCode()]}
	switch prefix := in.GetPrefixRewrite(); {
	case prefix != "" && c.Rule.OfGatewayAPI():
		setSegmentsOf(out, prefix, match)
	case prefix != "":
		out.PathRewriteSpecifier = &routev3.RedirectAction_PrefixRewrite{PrefixRewrite: prefix}
	default:
		out.PathRewriteSpecifier = &routev3.RedirectAction_PathRedirect{PathRedirect: in.GetUri()}
	}
	scheme := "http"
	if c.TLS {
		scheme = "https"
	}
	if in.GetScheme() != "" {
		scheme = in.GetScheme()
		out.SchemeRewriteSpecifier = &routev3.RedirectAction_SchemeRedirect{SchemeRedirect: in.GetScheme()}
	}
	out.PortRedirect = redirectPort(in, scheme, c.Port)
	return &routev3.Route_Redirect{Redirect: out}
}

// redirectPort is 0, which means not written, if it is the scheme's own.
func redirectPort(in *networking.HTTPRedirect, scheme string, requestPort uint32) uint32 {
	var port uint32
	switch p := in.GetRedirectPort().(type) {
	case *networking.HTTPRedirect_Port:
		port = p.Port
	case *networking.HTTPRedirect_DerivePort:
		if p.DerivePort == networking.HTTPRedirect_FROM_REQUEST_PORT {
			port = requestPort
		}
	}
	if scheme == "http" && port == 80 || scheme == "https" && port == 443 {
		return 0
	}
	return port
}

// directResponse answers without asking anybody.
func directResponse(in *networking.HTTPDirectResponse) *routev3.Route_DirectResponse {
	out := &routev3.DirectResponseAction{Status: in.GetStatus()}
	switch body := in.GetBody().GetSpecifier().(type) {
	case *networking.HTTPBody_String_:
		out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: body.String_}}
	case *networking.HTTPBody_Bytes:
		out.Body = &corev3.DataSource{Specifier: &corev3.DataSource_InlineBytes{InlineBytes: body.Bytes}}
	}
	return &routev3.Route_DirectResponse{DirectResponse: out}
}
