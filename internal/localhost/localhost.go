// Package localhost tells requests of this machine's people and programs from those that a page in a browser makes: a site can have its name lead to
// 127.0.0.1 once the page is there, and the page may then ask, and read, what is served on loopback (DNS rebinding). Its requests name the site.
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

// Named tells whether a request is for an address, for localhost, or for this machine by its name: no site can be called so.
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

// Reached tells whether a request came by loopback.
func Reached(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

// Handler refuses requests that came by loopback and are for a host of another name. Any name will do to ask for health: for these paths, and for all
// below one that ends in a slash.
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
