package gatewayapi

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	networking "istio.io/api/networking/v1alpha3"
)

// Session says by what requests of one session are known. The endpoint of the first one is written
// there, and the others go to it for as long as it is there.
type Session struct {
	Name     string // of the cookie, or of the header
	ByHeader bool
	Lifetime time.Duration // of the cookie; 0 is as long as the browser's session
	Path     string        // of the cookie; "" if a browser decides
}

// session is that of a rule, with its route; nil if the rule says nothing of sessions, or sends nowhere.
func (c *conversion) session(rule ruleSpec, route *networking.HTTPRoute, index int, at string) *Session {
	if rule.SessionPersistence == nil || len(route.GetRoute()) == 0 {
		return nil
	}
	r := c.route.Resource
	out, wrong := rule.SessionPersistence.session(fmt.Sprint(r.Kind.Name, "/", r.Namespace, "/", r.Name, "/", or(rule.Name, strconv.Itoa(index))))
	if wrong != "" {
		c.report(at+".sessionPersistence", wrong)
	}
	return out
}

// session reads what is said of sessions. Without a name, that of who says it makes one. The name goes
// into headers, and one that cannot is wrong.
func (s *sessionSpec) session(of string) (out *Session, wrong string) {
	out = &Session{Name: or(s.SessionName, ""), ByHeader: or(s.Type, "Cookie") == "Header"}
	switch {
	case out.Name == "" && out.ByHeader:
		out.Name = "x-session-" + digest(of)
	case out.Name == "":
		out.Name = "session-" + digest(of)
	case !isToken(out.Name) || out.ByHeader && slices.Contains(taken, strings.ToLower(out.Name)):
		return nil, fmt.Sprintf("no cookie or header can have the name %q: requests of a session may go to any endpoint. Write one of letters, digits and \"-\"", out.Name)
	}
	if d := duration(or(s.AbsoluteTimeout, "")); d != nil && !out.ByHeader && s.CookieConfig.LifetimeType == "Permanent" {
		out.Lifetime = d.AsDuration()
	}
	return out, ""
}

// taken are headers that say something else already.
var taken = []string{
	"host", "cookie", "set-cookie", "connection", "keep-alive", "te", "trailer", "upgrade", "transfer-encoding", "content-length", "content-type",
	"content-encoding", "authorization", "location", "date", "server", "via", "expect",
}

// isToken reports whether a text can be the name of a cookie or of a header.
func isToken(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("-_.", c)
	})
}

// digest is a short text that stands for another.
func digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return hex.EncodeToString(sum[:4])
}

// under is the session of requests with a match. A cookie is for the paths that the match is for, so that
// rules with one name for it do not share sessions.
func (s *Session) under(match *networking.HTTPMatchRequest) *Session {
	if s == nil || s.ByHeader {
		return s
	}
	out := *s
	out.Path = cookiePath(match.GetUri())
	return &out
}

// cookiePath is the longest path of a cookie that all paths of a match begin with.
func cookiePath(uri *networking.StringMatch) string {
	path := uri.GetExact() + uri.GetPrefix()
	if expression := uri.GetRegex(); expression != "" && !strings.Contains(expression, "|") {
		path = strings.TrimPrefix(expression, "^")
		if at := strings.IndexAny(path, `\.+*?()[]{}^$`); at >= 0 {
			path = segmentsBefore(path, at)
		}
	}
	if at := strings.IndexFunc(path, func(c rune) bool { return c <= ' ' || c == ';' || c >= 0x7f }); at >= 0 {
		path = segmentsBefore(path, at)
	}
	if !strings.HasPrefix(path, "/") {
		return "/"
	}
	return path
}

// segmentsBefore are the whole segments of a path before a place in it.
func segmentsBefore(path string, at int) string {
	return path[:max(0, strings.LastIndexByte(path[:at], '/'))]
}

// Towards is the session with one of several destinations, by its place among them. Each has a cookie or
// a header of its own: so it is known where a session is, whatever the weights have become. That of the
// first has the session's name, and goes on if the others come or go.
func (s *Session) Towards(to *networking.Destination, place int) *Session {
	if s == nil || place == 0 {
		return s
	}
	out := *s
	out.Name += "-" + digest(fmt.Sprint(to.GetHost(), " ", to.GetPort().GetNumber()))
	return &out
}
