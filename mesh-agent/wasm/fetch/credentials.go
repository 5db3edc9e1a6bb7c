package fetch

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// credentials are those in the file config.json of Docker, by registries.
type credentials struct {
	Auths map[string]login `json:"auths"`
}

// login is how to log in to a registry.
type login struct {
	Username      string `json:"username"`
	Password      string `json:"password"`
	Auth          string `json:"auth"`          // both, as in the header of HTTP
	IdentityToken string `json:"identitytoken"` // for which tokens are given
	RegistryToken string `json:"registrytoken"` // which the registry takes as it is
}

// readCredentials reads the file; "" has none. An error does not quote it.
func readCredentials(text string) (*credentials, error) {
	c := &credentials{}
	if text == "" {
		return c, nil
	}
	if err := json.Unmarshal([]byte(text), c); err != nil || c.Auths == nil {
		return nil, errors.New(`the imagePullSecret cannot be read: it has to be like Docker's config.json, {"auths": {"HOST": {"auth": "…"}}}`)
	}
	return c, nil
}

// of returns the login for an image: that of the longest path that leads to it.
func (c *credentials) of(at reference) (out login) {
	best := -1
	for key, one := range c.Auths {
		host, path := splitKey(key)
		if host != at.host || path != "" && path != at.repository && !strings.HasPrefix(at.repository, path+"/") || len(path) <= best {
			continue
		}
		best, out = len(path), one
	}
	return out.complete()
}

// splitKey reads the key of a registry, which may be a URL, with a path for part of a registry.
func splitKey(key string) (host, path string) {
	_, after, isURL := strings.Cut(key, "://")
	if !isURL {
		after = key
	}
	host, path, _ = strings.Cut(after, "/")
	path = strings.Trim(path, "/")
	if path == "v1" || path == "v2" { // of the registry's API
		path = ""
	}
	switch host {
	case "index.docker.io", dockerServer, "docker.io":
		host = dockerHub
	}
	return host, path
}

// complete fills in name and password from what has both.
func (l login) complete() login {
	if l.Auth == "" || l.Username != "" {
		return l
	}
	both, err := base64.StdEncoding.DecodeString(l.Auth)
	if err != nil {
		return l
	}
	l.Username, l.Password, _ = strings.Cut(string(both), ":")
	return l
}
