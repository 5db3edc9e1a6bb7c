package fetch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/pgmesh/pgmesh/internal/places"
)

// registryClient reads one image of a registry.
type registryClient struct {
	fetcher *Fetcher
	at      reference
	login   login

	scheme        string // "" until the registry was asked
	authorization string // the header that it wants; "" for none
}

// get reads something of the image's repository. It logs in if the registry wants that.
func (c *registryClient) get(ctx context.Context, path string, accept ...string) (io.ReadCloser, error) {
	response, err := c.ask(ctx, path, accept)
	if err != nil {
		return nil, err
	}
	if response.StatusCode == http.StatusUnauthorized && c.authorization == "" {
		challenge := response.Header.Get("WWW-Authenticate")
		if err := errors.Join(response.Body.Close(), c.authorize(ctx, challenge)); err != nil {
			return nil, err
		}
		if response, err = c.ask(ctx, path, accept); err != nil {
			return nil, err
		}
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(statusError("oci://"+c.at.host+"/"+c.at.repository, response.StatusCode), response.Body.Close())
	}
	return response.Body, nil
}

// ask makes one request. A registry that may be insecure may also speak plaintext.
func (c *registryClient) ask(ctx context.Context, path string, accept []string) (*http.Response, error) {
	if c.scheme != "" {
		return c.askBy(ctx, c.scheme, path, accept)
	}
	c.scheme = "https"
	response, err := c.askBy(ctx, c.scheme, path, accept)
	if err != nil && strings.Contains(err.Error(), plaintext) && c.fetcher.insecure(c.at.host) {
		c.scheme = "http"
		return c.askBy(ctx, c.scheme, path, accept)
	}
	return response, err
}

// plaintext is in the error of an attempt to speak TLS with somebody who does not.
const plaintext = "server gave HTTP response to HTTPS client"

func (c *registryClient) askBy(ctx context.Context, scheme, path string, accept []string) (*http.Response, error) {
	at := scheme + "://" + c.at.server() + "/v2/" + c.at.repository + "/" + path
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return nil, err
	}
	if len(accept) > 0 {
		request.Header.Set("Accept", strings.Join(accept, ", "))
	}
	if c.authorization != "" {
		request.Header.Set("Authorization", c.authorization)
	}
	return c.fetcher.client(c.at.host).Do(request)
}

// authorize gets what the registry wants to see, as its challenge says.
func (c *registryClient) authorize(ctx context.Context, challenge string) error {
	how, parameters := parseChallenge(challenge)
	switch {
	case c.login.RegistryToken != "":
		c.authorization = "Bearer " + c.login.RegistryToken
	case strings.EqualFold(how, "basic"):
		if c.login.Username == "" {
			return fmt.Errorf("the registry %s wants a password, and the plugin has no imagePullSecret for it", c.at.host)
		}
		request := &http.Request{Header: http.Header{}}
		request.SetBasicAuth(c.login.Username, c.login.Password)
		c.authorization = request.Header.Get("Authorization")
	case strings.EqualFold(how, "bearer"):
		token, err := c.token(ctx, parameters)
		if err != nil {
			return err
		}
		c.authorization = "Bearer " + token
	default:
		return fmt.Errorf("the registry %s asks for a way to log in that is not known, %q", c.at.host, how)
	}
	return nil
}

// parseChallenge reads the header in which a server says how to log in.
func parseChallenge(header string) (how string, parameters map[string]string) {
	how, rest, _ := strings.Cut(strings.TrimSpace(header), " ")
	parameters = map[string]string{}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimLeft(rest, ", ") {
		name, after, ok := strings.Cut(rest, "=")
		if !ok {
			break
		}
		var value string
		if quoted, is := strings.CutPrefix(after, `"`); is {
			value, rest, _ = strings.Cut(quoted, `"`)
		} else {
			value, rest, _ = strings.Cut(after, ",")
		}
		parameters[strings.ToLower(strings.TrimSpace(name))] = value
	}
	return how, parameters
}

// maxToken bounds the answer of a server of tokens.
const maxToken = 256 << 10

// token asks the server that the registry named for a token.
func (c *registryClient) token(ctx context.Context, parameters map[string]string) (string, error) {
	realm, err := url.Parse(parameters["realm"])
	if err != nil || realm.Host == "" {
		return "", fmt.Errorf("the registry %s does not say where to log in", c.at.host)
	}
	if err := places.MayFollow(&url.URL{Scheme: c.scheme}, realm); err != nil {
		return "", fmt.Errorf("where the registry %s says to log in cannot be followed: %w", c.at.host, err)
	}
	request, err := c.tokenRequest(ctx, realm, parameters["service"])
	if err != nil {
		return "", err
	}
	response, err := c.fetcher.client(realm.Host).Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return "", statusError(realm.String(), response.StatusCode)
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.NewDecoder(&bounded{response.Body, maxToken, errors.New("it is too long")}).Decode(&answer); err != nil || answer.Token+answer.AccessToken == "" {
		return "", fmt.Errorf("%s gives no token", places.Shown(realm.String()))
	}
	if answer.Token != "" {
		return answer.Token, nil
	}
	return answer.AccessToken, nil
}

// tokenRequest asks for a token to read the repository.
func (c *registryClient) tokenRequest(ctx context.Context, realm *url.URL, service string) (*http.Request, error) {
	query := realm.Query()
	query.Set("scope", "repository:"+c.at.repository+":pull")
	if service != "" {
		query.Set("service", service)
	}
	at := *realm
	if c.login.IdentityToken == "" {
		at.RawQuery = query.Encode()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), http.NoBody)
		if err == nil && c.login.Username != "" {
			request.SetBasicAuth(c.login.Username, c.login.Password)
		}
		return request, err
	}
	query.Set("grant_type", "refresh_token")
	query.Set("refresh_token", c.login.IdentityToken)
	query.Set("client_id", "mesh-agent")
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at.String(), strings.NewReader(query.Encode()))
	if err == nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	return request, err
}
