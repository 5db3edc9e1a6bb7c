package client

import (
	"bytes"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/pgmesh/pgmesh/identity/tlsfiles"
	"github.com/pgmesh/pgmesh/internal/kit/reload"
	"github.com/pgmesh/pgmesh/registry/parameters"
)

// Settings say where Consul is, and how it is asked, as the URL says.
type Settings struct {
	Base      *url.URL
	TokenFile string
	TLS       tlsfiles.Client
	Patience  time.Duration
}

const (
	defaultPatience = 5 * time.Second
	defaultPort     = 8500
	securePort      = 8501
)

// Add adds the parameters of a URL that are about the client to others.
func Add[S any](to map[string]parameters.Parameter[S], of func(*S) *Settings) map[string]parameters.Parameter[S] {
	text := func(at func(*Settings) *string) parameters.Parameter[S] {
		return parameters.Text(func(s *S) *string { return at(of(s)) })
	}
	maps.Copy(to, map[string]parameters.Parameter[S]{
		"token-file":      text(func(s *Settings) *string { return &s.TokenFile }),
		"tls-ca":          text(func(s *Settings) *string { return &s.TLS.CA }),
		"tls-cert":        text(func(s *Settings) *string { return &s.TLS.Cert }),
		"tls-key":         text(func(s *Settings) *string { return &s.TLS.Key }),
		"tls-server-name": text(func(s *Settings) *string { return &s.TLS.ServerName }),
		"timeout":         parameters.Duration(100*time.Millisecond, time.Minute, func(s *S) *time.Duration { return &of(s).Patience }),
		"tls": parameters.YesOrNo(func(s *S, yes bool) {
			if yes {
				of(s).Base.Scheme = "https"
			}
		}),
	})
	return to
}

// NewSettings are those of a URL without parameters.
func NewSettings(u *url.URL) Settings {
	return Settings{Base: &url.URL{Scheme: "http", Host: u.Host, Path: u.Path}, Patience: defaultPatience}
}

// Complete checks the settings once all parameters were read.
func (s *Settings) Complete(u *url.URL) error {
	switch {
	case u.Hostname() == "":
		return errors.New("it names no agent: write consul://127.0.0.1:8500")
	case u.User != nil:
		return errors.New("a token does not belong into a URL, which others can read: write it to a file, and name that with token-file")
	case (s.TLS.Cert == "") != (s.TLS.Key == ""):
		return errors.New("a certificate and its key belong together: give tls-cert and tls-key")
	}
	port := defaultPort
	if s.secure() {
		s.Base.Scheme, port = "https", securePort
	}
	if u.Port() == "" {
		s.Base.Host += ":" + strconv.Itoa(port)
	}
	return nil
}

func (s *Settings) secure() bool { return s.Base.Scheme == "https" || s.TLS.Given() }

// Access is what the files of settings hold, as new as the files.
type Access struct {
	settings Settings
	token    *reload.Value[string]
	files    *tlsfiles.ClientFiles
}

// Load reads the files.
func (s *Settings) Load(o reload.Options) (*Access, error) {
	a := &Access{settings: *s}
	var err error
	if s.TokenFile != "" {
		if a.token, err = loadToken(o, s.TokenFile); err != nil {
			return nil, err
		}
	}
	if s.secure() {
		if a.files, err = s.TLS.Load(o); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// Transport keeps up to a number of connections open.
func (a *Access) Transport(connections int) *http.Transport {
	return NewTransport(a.files, connections)
}

// Client asks over a transport.
func (a *Access) Client(transport http.RoundTripper, always url.Values) *Client {
	return &Client{Base: a.settings.Base, Token: a.tokenNow, Transport: transport, Patience: a.settings.Patience, Always: always}
}

// loadToken reads the file of an ACL token, which is read again when it changes.
func loadToken(o reload.Options, file string) (*reload.Value[string], error) {
	o.What = "token for Consul"
	return reload.Load(o, func(contents [][]byte) (string, error) {
		token := string(bytes.TrimSpace(contents[0]))
		if token == "" {
			return "", errors.New("there is no token in " + file)
		}
		if strings.ContainsAny(token, " \t\r\n") {
			return "", errors.New("there is more than a token in " + file)
		}
		return token, nil
	}, file)
}

func (a *Access) tokenNow() string {
	if a.token == nil {
		return ""
	}
	return a.token.Fresh()
}
