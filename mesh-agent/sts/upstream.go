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

// answer is what the server of tokens gave.
type answer struct {
	fields  map[string]json.RawMessage
	expires time.Time // zero if that is not known
}

// most is how long an answer may be.
const most = 1 << 20

// ask sends an exchange to the server of tokens.
func (s *Server) ask(ctx context.Context, e *exchange) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
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
	body, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err != nil {
		return nil, s.unreachable(err)
	}
	s.metrics.took.Observe(time.Since(begun).Seconds())
	if response.StatusCode != http.StatusOK {
		return nil, s.refused(e, response, body)
	}
	a, err := read(body, begun)
	if err != nil { // the body has a token, perhaps: nothing of it is told
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

// code is what a code of RFC 6749 may look like.
var code = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,60}$`)

// refused tells the caller what the server of tokens has against the request. What it has against the machine is not the caller's fault.
func (s *Server) refused(e *exchange, response *http.Response, body []byte) error {
	r := &refusal{status: http.StatusBadGateway, Code: serverError, Description: fmt.Sprintf("the server of tokens answered %d", response.StatusCode)}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	var said refusal
	if kind == "application/json" && json.Unmarshal(body, &said) == nil && code.MatchString(said.Code) {
		r.Code, r.Description, r.URI = said.Code, e.clean(said.Description), e.clean(said.URI)
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

// read takes an answer as RFC 8693 (2.2.1) has it.
func read(body []byte, asked time.Time) (*answer, error) {
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

// tell is the answer as it is now: with the time that is left.
func (a *answer) tell(now time.Time) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(a.fields))
	maps.Copy(out, a.fields)
	if !a.expires.IsZero() {
		out["expires_in"] = json.RawMessage(fmt.Sprint(int64(a.expires.Sub(now) / time.Second)))
	}
	return out
}
