package jwks

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

// unusable is the error for a document that is no use. It does not quote the document, which may
// come from a place that only discovery can reach.
type unusable struct {
	url string
	why error
}

func (u unusable) Error() string {
	return fmt.Sprintf("what %s answers is of no use: %v", places.Shown(u.url), u.why)
}

// get fetches a document.
func (k *Keeper) get(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%s has no host", places.Shown(address))
	}
	if err := places.MayFollow(u, u); err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("%s is no URL that can be asked", places.Shown(address))
	}
	request.Header.Set("Accept", "application/jwk-set+json, application/json")
	request.Header.Set("User-Agent", "pgmesh-discovery")
	response, err := k.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return nil, unusable{address, fmt.Errorf("the status is %d", response.StatusCode)}
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, k.options.MaxSize+1))
	if err == nil && int64(len(body)) > k.options.MaxSize {
		err = unusable{address, fmt.Errorf("it has more than %d bytes, which is what --jwks-max-size allows", k.options.MaxSize)}
	}
	return body, err
}

const openID = "/.well-known/openid-configuration"

// discover asks an issuer where its keys are (OpenID Connect Discovery 1.0).
func (k *Keeper) discover(ctx context.Context, issuer string) (string, error) {
	address := strings.TrimSuffix(issuer, "/") + openID
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("the issuer %q is no URL that could be asked where its keys are: write jwksUri or jwks", issuer)
	}
	body, err := k.get(ctx, address)
	if err != nil {
		return "", err
	}
	var about struct {
		Keys string `json:"jwks_uri"`
	}
	if err := json.Unmarshal(body, &about); err != nil || about.Keys == "" {
		return "", unusable{address, errors.New("it has no jwks_uri")}
	}
	from, err := url.Parse(address)
	to, wrong := url.Parse(about.Keys)
	if err != nil || wrong != nil {
		return "", unusable{address, errors.New("its jwks_uri is no URL")}
	}
	if err := places.MayFollow(from, to); err != nil {
		return "", unusable{address, fmt.Errorf("its jwks_uri cannot be followed: %w", err)}
	}
	return about.Keys, nil
}
