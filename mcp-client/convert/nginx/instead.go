package nginx

import "github.com/pgmesh/pgmesh/mcp-client/convert/nginxconf"

// counterpart is what becomes of a directive that no route has a field for, and what to do.
type counterpart struct {
	what, instead string
	lost          bool // requests or answers are not as before
}

// lost and kept are the two sorts of counterparts.
func lost(what, instead string) counterpart { return counterpart{what, instead, true} }

func kept(what, hint string) counterpart { return counterpart{what, hint, false} }

// What is said of several directives.
const (
	byFilter  = "docs/envoyfilter.md"
	byProgram = "serve them by a program, or have NGINX stay for them, and pass requests on to that"
)

var (
	compressed = lost("answers are no longer compressed", "have applications compress them, or write an EnvoyFilter with envoy.filters.http.compressor: "+byFilter)
	cached     = lost("no answer is kept: each request goes to a server", "have a cache stay before the gateway, such as this NGINX, or put one behind it")
	limited    = lost("requests are not limited", "write an EnvoyFilter with local_ratelimit, which counts in each Envoy: "+byFilter)
	slow       = lost("Envoy has times of its own for slow clients", "write an EnvoyFilter with request_headers_timeout or stream_idle_timeout: "+byFilter)
	variable   = lost("routes have no variables: what is made of it stays as it is written", "have the application look at the header, or write a rule for each value")
	secured    = lost("listeners have no such field", "write it into tlsDefaults of the MeshConfig, for all listeners")
	cookies    = lost("cookies are passed on as they are", "have the application set them as clients are to have them")
	presented  = lost("servers are shown no certificate", "write tls with mode: MUTUAL into the DestinationRule")
	ownPages   = lost("errors of servers are passed on as they are", "have the application answer with the page")
	asked      = kept("Envoy passes bodies on as they come, both ways", "")
	logged     = kept("requests are logged if a Telemetry says so", "write one with accessLogging: docs/telemetry.md")
)

// counterparts are those of the directives that people write most.
var counterparts = map[string]counterpart{
	"gzip": compressed, "gzip_static": compressed, "gunzip": compressed, "brotli": compressed,
	"client_max_body_size":          lost("bodies of any size are passed on", "have the application bound them, or write an EnvoyFilter with envoy.filters.http.buffer and max_request_bytes: "+byFilter),
	"proxy_cache":                   cached,
	"limit_req":                     limited,
	"limit_conn":                    lost("connections of one client are not bounded", "write an EnvoyFilter with envoy.filters.network.connection_limit, which counts those of all clients together: "+byFilter),
	"limit_rate":                    lost("answers are sent as fast as clients take them", "write an EnvoyFilter with envoy.filters.http.bandwidth_limit: "+byFilter),
	"access_log":                    logged,
	"proxy_buffering":               asked,
	"proxy_request_buffering":       asked,
	"proxy_read_timeout":            lost("a request has no bound, where NGINX bounds how long it waits for the next part of an answer", "write timeouts.request into the rules of the route"),
	"proxy_send_timeout":            lost("a request has no bound", "write timeouts.request into the rules of the route"),
	"proxy_connect_timeout":         lost("connections to servers take as long as the MeshConfig says", "write connectionPool.tcp.connectTimeout into the DestinationRule"),
	"grpc_read_timeout":             lost("a request has no bound", "write timeouts.request into the rules of the route"),
	"grpc_connect_timeout":          lost("connections to servers take as long as the MeshConfig says", "write connectionPool.tcp.connectTimeout into the DestinationRule"),
	"proxy_next_upstream":           lost("a request is tried again as the mesh usually does, and not on these conditions", "write retry into the rules of the route"),
	"client_body_timeout":           slow,
	"client_header_timeout":         slow,
	"send_timeout":                  slow,
	"ssl_protocols":                 secured,
	"ssl_ciphers":                   secured,
	"ssl_ecdh_curve":                secured,
	"set":                           variable,
	"map":                           variable,
	"geo":                           variable,
	"split_clients":                 lost("routes have no variables", "write backends with weights into the rule"),
	"expires":                       lost("the header cache-control is not added", "write a ResponseHeaderModifier into the rules of the route"),
	"proxy_hide_header":             lost("the header is passed on to clients", "write a ResponseHeaderModifier with remove into the rules of the route"),
	"proxy_pass_header":             lost("Envoy sets server and date by itself", "write an EnvoyFilter with server_header_transformation: "+byFilter),
	"proxy_cookie_path":             cookies,
	"proxy_cookie_domain":           cookies,
	"proxy_cookie_flags":            cookies,
	"error_page":                    ownPages,
	"proxy_intercept_errors":        ownPages,
	"sub_filter":                    lost("bodies are passed on as they are", "write an EnvoyFilter with envoy.filters.http.lua, or have the application write what clients are to have: "+byFilter),
	"mirror":                        lost("requests are not copied", "write a RequestMirror into the rules of the route"),
	"set_real_ip_from":              lost("the address of a client is that of the connection", "write defaultConfig.gatewayTopology.numTrustedProxies into the MeshConfig: docs/gateways.md"),
	"hash":                          lost("servers are chosen as of any service", "write loadBalancer.consistentHash into the DestinationRule"),
	"sticky":                        lost("servers are chosen as of any service", "write sessionPersistence into the rules of the route: docs/gateway-api.md"),
	"proxy_ssl_certificate":         presented,
	"proxy_ssl_certificate_key":     presented,
	"proxy_ssl_trusted_certificate": lost("certificates of servers are not checked", "write a BackendTLSPolicy in the place of the DestinationRule"),
	"proxy_ssl_verify":              lost("certificates of servers are not checked", "write a BackendTLSPolicy in the place of the DestinationRule"),
	"grpc_ssl_verify":               lost("certificates of servers are not checked", "write a BackendTLSPolicy in the place of the DestinationRule"),
}

// files are directives by which NGINX answers by itself, or speaks otherwise than by HTTP.
var files = map[string]counterpart{
	"root": lost("a gateway has no files", byProgram), "alias": lost("a gateway has no files", byProgram), "index": lost("a gateway has no files", byProgram),
	"autoindex": lost("a gateway has no files", byProgram), "try_files": lost("a gateway has no files, and looks for none", byProgram), "empty_gif": lost("a gateway has no files", byProgram),
	"fastcgi_pass":         lost("Envoy does not speak FastCGI", "have NGINX stay beside the application, and pass requests on to it by HTTP"),
	"uwsgi_pass":           lost("Envoy does not speak the protocol uwsgi", "have the application speak HTTP (http-socket of uWSGI), or NGINX stay beside it"),
	"scgi_pass":            lost("Envoy does not speak SCGI", "have the application speak HTTP, or NGINX stay beside it"),
	"memcached_pass":       lost("a gateway does not ask Memcached", "have a program ask it, and pass requests on to that"),
	"stub_status":          lost("a gateway does not tell of itself here", "Prometheus reads it from mesh-agent: docs/metrics.md"),
	"content_by_lua_block": lost("a gateway runs no such program", "write one that speaks HTTP, and pass requests on to it"),
	"js_content":           lost("a gateway runs no such program", "write one that speaks HTTP, and pass requests on to it"),
	"perl":                 lost("a gateway runs no such program", "write one that speaks HTTP, and pass requests on to it"),
}

// guardians say what is to be written in the place of what may refuse requests.
var guardians = map[string]string{
	"allow": "an AuthorizationPolicy with ipBlocks or remoteIpBlocks", "deny": "an AuthorizationPolicy with ipBlocks or remoteIpBlocks",
	"auth_basic":        "an EnvoyFilter with envoy.filters.http.basic_auth (" + byFilter + "), or a RequestAuthentication for tokens",
	"auth_request":      "an AuthorizationPolicy with the action CUSTOM, whose service decides: docs/authorization.md",
	"auth_jwt":          "a RequestAuthentication, and an AuthorizationPolicy that asks for its principals: docs/request-authentication.md",
	"ssl_verify_client": "tls.frontend into the Gateway: docs/gateway-api.md",
	"limit_except":      "an AuthorizationPolicy with methods",
}

// tell tells of a directive that is in none of the lists: what becomes of it, once for all its places.
func (c *conversion) tell(d *nginxconf.Directive) {
	of, known := counterparts[d.Name]
	switch {
	case !known:
		c.each.Lose(place(d), "the directive is not known here, or has no counterpart", "if it matters to requests, say it by hand")
	case d.Arg(0) == "off":
	case of.lost:
		c.each.Lose(place(d), of.what, of.instead)
	default:
		c.each.Note(place(d), of.what, of.instead)
	}
}

// guarded tells of a directive that may refuse requests.
func (c *conversion) guarded(d *nginxconf.Directive) {
	instead, known := guardians[d.Name]
	if !known {
		instead = "an AuthorizationPolicy or a RequestAuthentication"
	}
	c.each.Lose(place(d), "a route cannot say who may call: requests that it is for are answered with 500", "remove it, convert again, and write "+instead)
}
