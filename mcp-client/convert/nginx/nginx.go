// Package nginx converts what NGINX is told to do with requests by their host and path.
package nginx

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/nginxconf"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// Options say how to convert.
type Options struct {
	Namespace     string // of everything
	Class         string // of the Gateway
	Gateway       string // its name
	WholeSegments bool   // take prefixes for those of whole segments
}

// conversion is one conversion of files that belong together.
type conversion struct {
	Options
	*gateway.Set

	upstreams map[string]*nginxconf.Directive
	services  map[string]service // by the upstream, or the address
	servers   []*server
	ofProcess map[string]bool
	listeners []gateway.Listener
	each      *report.Counted // what is told of many places at once
}

// Convert converts directives, as they stand in a nginx.conf or in a file that it includes.
func Convert(file string, directives []*nginxconf.Directive, o Options, out *gateway.Set) {
	o.Gateway = cmp.Or(o.Gateway, "nginx")
	c := &conversion{Options: o, Set: out, upstreams: map[string]*nginxconf.Directive{}, services: map[string]service{}, ofProcess: map[string]bool{}, each: report.NewCounted(out.Report)}
	c.http(directives, scope{})
	c.chooseDefaults()
	for _, s := range c.servers {
		c.listen(s)
	}
	for _, s := range c.servers {
		c.write(s)
	}
	c.each.Tell()
	if len(c.listeners) > 0 {
		c.Add("Gateway", c.Namespace, c.Gateway, gateway.Gateway{Class: c.Class, Listeners: c.listeners}, report.Place{File: file})
	}
	if len(c.ofProcess) > 0 {
		c.Note(report.Place{File: file}, "left out, as they are about NGINX itself and not about answers: "+strings.Join(slices.Sorted(maps.Keys(c.ofProcess)), ", "), "")
	}
}

// place is where a directive stands.
func place(d *nginxconf.Directive) report.Place {
	path := d.Name
	if d.Name == "location" || d.Name == "upstream" {
		path += " " + strings.Join(d.Args, " ")
	}
	return report.Place{File: d.File, Line: d.Line, Path: path}
}

// scope is what locations inherit from around them.
type scope struct {
	requestHeaders  []*nginxconf.Directive // proxy_set_header: those of the innermost block that has some
	responseHeaders []*nginxconf.Directive // add_header: the same
	name            string                 // the name that servers of TLS are asked for
	closed          bool                   // nobody may be let in, since it cannot be said who may
}

// within is the scope of a block.
func (s scope) within(c *conversion, block []*nginxconf.Directive) scope {
	own := scope{name: s.name, closed: s.closed}
	for _, d := range block {
		switch d.Name {
		case "proxy_set_header", "grpc_set_header":
			own.requestHeaders = append(own.requestHeaders, d)
		case "add_header":
			own.responseHeaders = append(own.responseHeaders, d)
		case "proxy_ssl_name", "grpc_ssl_name":
			own.name = d.Arg(0)
		}
		if guards[d.Name] && d.Arg(0) != "off" && (d.Name != "allow" || d.Arg(0) != "all") {
			c.guarded(d)
			own.closed = true
		}
	}
	if own.requestHeaders == nil {
		own.requestHeaders = s.requestHeaders
	}
	if own.responseHeaders == nil {
		own.responseHeaders = s.responseHeaders
	}
	return own
}

// http reads the outermost blocks.
func (c *conversion) http(block []*nginxconf.Directive, around scope) {
	for _, d := range block {
		switch d.Name {
		case "http":
			c.http(d.Block, around.within(c, d.Block))
		case "upstream":
			c.upstreams[d.Arg(0)] = d
		case "server":
			if d.HasBlock {
				c.servers = append(c.servers, c.server(d, around.within(c, d.Block)))
			}
		case "stream", "mail":
			c.Lose(place(d), "only HTTP is converted: it is left out", "write Gateways with listeners of TCP or TLS, and TCPRoutes or TLSRoutes")
		case "include":
			c.missing(d)
		default:
			c.other(d)
		}
	}
}

// missing tells of an include that names no file that can be read.
func (c *conversion) missing(d *nginxconf.Directive) {
	for _, usual := range []string{"mime.types", "fastcgi_params", "fastcgi.conf", "uwsgi_params", "scgi_params"} {
		if strings.HasSuffix(d.Arg(0), usual) {
			c.ofProcess["include "+usual] = true
			return
		}
	}
	c.Lose(place(d), fmt.Sprintf("there is no file %s: what it includes is left out", d.Arg(0)), "convert where the file is")
}

// guards are directives that may refuse requests.
var guards = setOf("allow", "deny", "auth_basic", "auth_request", "auth_jwt", "satisfy", "valid_referers", "secure_link", "secure_link_md5", "ssl_verify_client", "internal", "access_by_lua_block", "access_by_lua_file", "js_access", "limit_except", "modsecurity")

// read are directives that are read with others.
var read = setOf("proxy_set_header", "grpc_set_header", "add_header", "proxy_ssl_name", "grpc_ssl_name", "ssl_certificate", "ssl_certificate_key", "listen", "server_name",
	"location", "return", "rewrite", "proxy_pass", "grpc_pass", "if", "auth_basic_user_file")

// process are directives about how NGINX works, and not about what it answers.
var process = setOf("user", "worker_processes", "worker_rlimit_nofile", "worker_connections", "pid", "events", "error_log", "log_not_found", "sendfile",
	"tcp_nopush", "tcp_nodelay", "keepalive_timeout", "keepalive_requests", "keepalive", "types_hash_max_size", "server_names_hash_bucket_size", "server_names_hash_max_size",
	"server_tokens", "default_type", "types", "load_module", "daemon", "resolver", "resolver_timeout", "proxy_http_version", "proxy_buffer_size",
	"proxy_buffers", "proxy_busy_buffers_size", "proxy_redirect", "zone", "ssl_session_cache", "ssl_session_timeout", "ssl_session_tickets",
	"ssl_prefer_server_ciphers", "ssl_dhparam", "ssl_stapling", "ssl_stapling_verify", "ssl_trusted_certificate", "http2", "merge_slashes", "multi_accept", "use",
	"map_hash_bucket_size", "variables_hash_max_size", "client_body_buffer_size", "client_header_buffer_size", "large_client_header_buffers", "reset_timedout_connection",
	"gzip_types", "gzip_vary", "gzip_proxied", "gzip_comp_level", "gzip_min_length", "gzip_disable", "gzip_buffers", "gzip_http_version", "proxy_ssl_server_name",
	"proxy_ssl_session_reuse", "underscores_in_headers", "charset", "pcre_jit",
	"proxy_cache_path", "proxy_cache_valid", "proxy_cache_key", "proxy_cache_use_stale", "proxy_cache_bypass", "proxy_no_cache", "proxy_cache_lock", "limit_req_zone", "limit_req_status", "limit_conn_zone",
	"log_format", "real_ip_header", "real_ip_recursive", "brotli_types", "brotli_comp_level", "fastcgi_param", "fastcgi_index", "uwsgi_param", "absolute_redirect")

func setOf(names ...string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}

// other tells of a directive that is not read.
func (c *conversion) other(d *nginxconf.Directive) {
	switch {
	case read[d.Name] || guards[d.Name]:
	case process[d.Name]:
		c.ofProcess[d.Name] = true
	case d.Name == "include":
		c.missing(d)
	default:
		c.tell(d)
	}
}
