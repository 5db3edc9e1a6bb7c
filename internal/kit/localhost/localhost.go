// Package localhost protects servers on loopback from DNS rebinding: a web site can point its own
// name to 127.0.0.1, and a page of it in a browser can then call, and read, what is served there.
// Such requests have the site's name in their Host header, so requests with foreign names are
// refused.
package localhost

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Named reports whether a request's Host is an address, localhost or this machine's name. A web
// site cannot have any of these as its name.
func Named(r *http.Request) bool {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if _, err := netip.ParseAddr(host); err == nil || strings.EqualFold(host, "localhost") {
		return true
	}
	own, err := os.Hostname()
	return err == nil && strings.EqualFold(host, own)
}

// Reached reports whether a request arrived on a loopback address.
func Reached(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

// Handler refuses requests that arrive on loopback with a foreign Host. Requests for the health
// paths may have any Host; a health path that ends in a slash covers all paths below it.
func Handler(next http.Handler, health ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asksForHealth := func(path string) bool {
			return r.URL.Path == path || strings.HasSuffix(path, "/") && strings.HasPrefix(r.URL.Path, path)
		}
		if Reached(r) && !Named(r) && !slices.ContainsFunc(health, asksForHealth) {
			refusal := fmt.Sprintf("on loopback this is served to localhost, to addresses and to the machine's own name, and not to a host of the name %q: a site could have its name lead here", r.Host)
			http.Error(w, refusal, http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}
