package sts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// answer is the answer of the token endpoint.
type answer struct {
	fields  map[string]json.RawMessage
	expires time.Time // zero if unknown
}

// maxAnswer bounds an answer.
const maxAnswer = 1 << 20

// requestToken sends an exchange to the token endpoint.
func (s *Server) requestToken(ctx context.Context, e *exchange) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Upstream, strings.NewReader(e.form.Encode()))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	begun := time.Now()
	response, err := s.client.Do(request)
	if err != nil {
		return nil, s.unreachable(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, s.unreachable(err)
	}
	s.metrics.took.Observe(time.Since(begun).Seconds())
	if response.StatusCode != http.StatusOK {
		return nil, s.explainRefusal(e, response, body)
	}
	a, err := parseAnswer(body, begun)
	if err != nil { // the body may have a token, so the error quotes nothing of it
		return nil, s.unusable(err)
	}
	return a, nil
}

func (s *Server) unreachable(err error) error {
	s.Log.Warn("the server of tokens cannot be reached", "upstream", s.Upstream, "error", err)
	if errors.Is(err, context.DeadlineExceeded) {
		return &refusal{status: http.StatusGatewayTimeout, Code: unavailable, Description: "the server of tokens did not answer in time"}
	}
	return &refusal{status: http.StatusBadGateway, Code: unavailable, Description: "the server of tokens cannot be reached; the agent's log says why"}
}

func (s *Server) unusable(err error) error {
	s.Log.Error("the server of tokens answers with what is no token", "upstream", s.Upstream, "error", err)
	return &refusal{status: http.StatusBadGateway, Code: serverError, Description: "the server of tokens answered with what is no token: " + err.Error()}
}

// errorCode matches the codes that RFC 6749 allows.
var errorCode = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,60}$`)

// explainRefusal passes on the endpoint's error if it concerns the request. If it concerns the
// machine, the caller is not at fault.
func (s *Server) explainRefusal(e *exchange, response *http.Response, body []byte) error {
	r := &refusal{status: http.StatusBadGateway, Code: serverError, Description: fmt.Sprintf("the server of tokens answered %d", response.StatusCode)}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	var said refusal
	if kind == "application/json" && json.Unmarshal(body, &said) == nil && errorCode.MatchString(said.Code) {
		r.Code, r.Description, r.URI = said.Code, e.sanitize(said.Description), e.sanitize(said.URI)
		if response.StatusCode == http.StatusBadRequest {
			r.status = http.StatusBadRequest
		}
	}
	switch {
	case response.StatusCode == http.StatusTooManyRequests, response.StatusCode == http.StatusServiceUnavailable:
		r.status, r.Code = http.StatusServiceUnavailable, unavailable
	case response.StatusCode == http.StatusUnauthorized, r.Code == "invalid_client", r.Code == "unauthorized_client":
		r.status = http.StatusBadGateway
		s.Log.Error("the server of tokens does not accept this machine: it may not know its certificate's authority, or its name (--sts-client-id)",
			"upstream", s.Upstream, "code", r.Code, "description", r.Description)
		return r
	}
	s.Log.Warn("the server of tokens refuses an exchange", "upstream", s.Upstream, "status", response.StatusCode, "code", r.Code, "description", r.Description)
	return r
}

// parseAnswer parses an answer as RFC 8693 (2.2.1) defines it.
func parseAnswer(body []byte, asked time.Time) (*answer, error) {
	a := &answer{}
	if json.Unmarshal(body, &a.fields) != nil {
		return nil, errors.New("it is no JSON object")
	}
	for _, name := range []string{"access_token", "token_type"} {
		var text string
		if json.Unmarshal(a.fields[name], &text) != nil || text == "" {
			return nil, fmt.Errorf("it has no %s", name)
		}
	}
	var seconds float64
	if raw, ok := a.fields["expires_in"]; ok {
		if json.Unmarshal(raw, &seconds) != nil || seconds < 0 {
			return nil, errors.New("its expires_in is no number of seconds")
		}
		a.expires = asked.Add(time.Duration(min(seconds, 1e9) * float64(time.Second)))
	}
	return a, nil
}

// fieldsAt returns the answer with the remaining lifetime.
func (a *answer) fieldsAt(now time.Time) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(a.fields))
	maps.Copy(out, a.fields)
	if !a.expires.IsZero() {
		out["expires_in"] = json.RawMessage(fmt.Sprint(int64(a.expires.Sub(now) / time.Second)))
	}
	return out
}
