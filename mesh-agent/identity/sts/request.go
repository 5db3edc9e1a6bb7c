package sts

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
)

const grantType = "urn:ietf:params:oauth:grant-type:token-exchange"

const (
	typePrefix = "urn:ietf:params:oauth:token-type:"
	typeJWT    = typePrefix + "jwt"
)

// types lists RFC 8693's token types.
var types = []string{"access_token", "refresh_token", "id_token", "saml1", "saml2", "jwt"}

func knownType(t string) bool {
	name, ok := strings.CutPrefix(t, typePrefix)
	return ok && slices.Contains(types, name)
}

// Error codes of RFC 6749 (5.2) and RFC 8693 (2.2.2).
const (
	invalidRequest = "invalid_request"
	unsupported    = "unsupported_grant_type"
	serverError    = "server_error"
	unavailable    = "temporarily_unavailable"
)

// refusal is an error for the caller, in the form of RFC 6749.
type refusal struct {
	status      int
	Code        string `json:"error"`
	Description string `json:"error_description,omitempty"`
	URI         string `json:"error_uri,omitempty"`
}

func (r *refusal) Error() string { return r.Code + ": " + r.Description }

func invalid(format string, args ...any) error {
	return &refusal{status: http.StatusBadRequest, Code: invalidRequest, Description: fmt.Sprintf(format, args...)}
}

// The parameters that are forwarded, and those that may be repeated.
var (
	forwarded  = []string{"resource", "audience", "scope", "requested_token_type", "subject_token", "subject_token_type", "actor_token", "actor_token_type"}
	repeatable = []string{"resource", "audience"}
)

// exchange is a request for the token endpoint.
type exchange struct{ form url.Values }

// parseForm validates a form as a token endpoint would, so that errors are reported here, where
// they are easy to find.
func (s *Server) parseForm(form url.Values) (*exchange, error) {
	if grant := form["grant_type"]; len(grant) != 1 {
		return nil, invalid("grant_type is missing, or given more than once: it has to be %s", grantType)
	} else if grant[0] != grantType {
		return nil, &refusal{status: http.StatusBadRequest, Code: unsupported, Description: "grant_type has to be " + grantType}
	}
	e := &exchange{form: url.Values{"grant_type": {grantType}}}
	for _, name := range forwarded {
		values := slices.DeleteFunc(slices.Clone(form[name]), func(v string) bool { return v == "" }) // empty counts as absent (RFC 6749, 3.2)
		if len(values) > 1 && !slices.Contains(repeatable, name) {
			return nil, invalid("%s is given more than once", name)
		}
		if len(values) > 0 {
			e.form[name] = values
		}
	}
	if err := s.addSubject(e.form); err != nil {
		return nil, err
	}
	if err := checkTypes(e.form); err != nil {
		return nil, err
	}
	if id := s.ClientID; id != "" {
		e.form.Set("client_id", id)
	}
	return e, nil
}

// addSubject uses the machine's token if the form has none.
func (s *Server) addSubject(form url.Values) error {
	if form.Has("subject_token") {
		return nil
	}
	if s.SubjectTokenFile == "" {
		return invalid("subject_token is missing: give the token to exchange, or have the agent be started with --sts-subject-token-file")
	}
	if t := form.Get("subject_token_type"); t != "" && t != s.SubjectTokenType {
		return invalid("subject_token_type is %s, and the machine's own token, which counts where none is given, is a %s", strings.TrimPrefix(t, typePrefix), strings.TrimPrefix(s.SubjectTokenType, typePrefix))
	}
	content, err := os.ReadFile(s.SubjectTokenFile)
	token := strings.TrimSpace(string(content))
	if err == nil && token == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		s.Log.Error("the machine's own token cannot be read, and is not exchanged", "file", s.SubjectTokenFile, "error", err)
		return &refusal{status: http.StatusServiceUnavailable, Code: unavailable, Description: "the machine's own token cannot be read; the agent's log says why"}
	}
	form.Set("subject_token", token)
	form.Set("subject_token_type", s.SubjectTokenType)
	return nil
}

func checkTypes(form url.Values) error {
	for _, each := range []string{"subject_token_type", "actor_token_type", "requested_token_type"} {
		if t := form.Get(each); t != "" && !strings.Contains(t, ":") { // extensions may define others, as URIs
			return invalid("%s is no URI: expected one as %s", each, typeJWT)
		}
	}
	switch {
	case !form.Has("subject_token_type"):
		return invalid("subject_token_type is missing: say what subject_token is, as %s", typeJWT)
	case form.Has("actor_token") != form.Has("actor_token_type"):
		return invalid("actor_token and actor_token_type belong together")
	}
	for _, resource := range form["resource"] {
		if u, err := url.Parse(resource); err != nil || !u.IsAbs() || u.Fragment != "" {
			return invalid("a resource is no absolute URI without a fragment")
		}
	}
	return nil
}

// key identifies exchanges with the same answer: the same form and client certificate, because a
// token may be bound to that.
func (e *exchange) key(certificate [][]byte) string {
	h := sha256.New()
	h.Write([]byte(e.form.Encode()))
	for _, der := range certificate[:min(len(certificate), 1)] {
		h.Write(der)
	}
	return string(h.Sum(nil))
}

// sanitize removes the request's tokens from a server's text, and characters that a description
// must not have (RFC 6749, 5.2).
func (e *exchange) sanitize(text string) string {
	for _, name := range []string{"subject_token", "actor_token"} {
		if token := e.form.Get(name); token != "" {
			text = strings.ReplaceAll(text, token, "(token)")
		}
	}
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '\''
		}
		return r
	}, text)
	return text[:min(len(text), 500)]
}
