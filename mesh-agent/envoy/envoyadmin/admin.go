// Package envoyadmin is a client of Envoy's admin API.
package envoyadmin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// headerTimeout is how long Envoy may take to begin an answer. Its main thread answers between
// other work, and a large configuration keeps it busy for a while.
const headerTimeout = 10 * time.Second

// client keeps no idle connections: requests are rare, and by the next one another Envoy may have
// the address.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: headerTimeout}}

// Admin calls the admin API of the current Envoy, looking up its address for each request.
type Admin struct{ address func() (string, error) }

// At returns an Admin that calls address before each request.
func At(address func() (string, error)) *Admin { return &Admin{address} }

// OfStateDir returns the Admin for the Envoy of the agent that uses this state folder. It reads the
// address from a file in it, so it works from another process.
func OfStateDir(folder string) *Admin {
	path := filepath.Join(folder, "envoy", "run", "admin")
	return At(func() (string, error) {
		content, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrPermission):
			return "", fmt.Errorf("%s is for another account: do this as root (sudo mesh-agent …), or as the account that the agent runs as", path)
		case errors.Is(err, fs.ErrNotExist) || err == nil && len(content) == 0:
			return "", fmt.Errorf("%w with the state folder %s: start the agent (systemctl start mesh-agent, or mesh-agent run), or name the folder of the one that does run with --state-dir",
				ErrNotRunning, folder)
		case err != nil:
			return "", fmt.Errorf("find Envoy: %w", err)
		}
		address := strings.TrimSpace(string(content))
		// Envoy's account can write this file; do not let it send the caller to another host.
		if at, err := netip.ParseAddrPort(address); err != nil || !at.Addr().IsLoopback() {
			return "", fmt.Errorf("%s says that Envoy's admin API is at %q, which is no address of loopback: start the agent again", path, address)
		}
		return address, nil
	})
}

// ErrNotRunning means that no Envoy answers.
var ErrNotRunning = errors.New("no Envoy runs")

// Get returns the body of an answer, which the caller closes.
func (a *Admin) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	return a.do(ctx, http.MethodGet, path)
}

// Text returns the whole answer.
func (a *Admin) Text(ctx context.Context, path string) (string, error) {
	return text(a.do(ctx, http.MethodGet, path))
}

// Post sends an order and returns Envoy's answer.
func (a *Admin) Post(ctx context.Context, path string) (string, error) {
	return text(a.do(ctx, http.MethodPost, path))
}

// JSON decodes an answer into a value.
func (a *Admin) JSON(ctx context.Context, path string, into any) error {
	body, err := a.Get(ctx, path)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := json.NewDecoder(body).Decode(into); err != nil {
		return fmt.Errorf("read Envoy's answer to %s: %w", path, err)
	}
	return nil
}

func text(body io.ReadCloser, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer body.Close()
	content, err := io.ReadAll(body)
	if err != nil {
		return "", fmt.Errorf("read Envoy's answer: %w", err)
	}
	return string(content), nil
}

// RefusedError is an answer with a status other than 200.
type RefusedError struct {
	Path    string
	Code    int
	Message string
}

func (e *RefusedError) Error() string { return "Envoy answers " + e.Path + " with " + e.Message }

func (a *Admin) do(ctx context.Context, method, path string) (io.ReadCloser, error) {
	address, err := a.address()
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%w at %s, as far as its admin API tells: %w", ErrNotRunning, address, errors.Unwrap(err))
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		message, _ := io.ReadAll(io.LimitReader(response.Body, 4<<10))
		return nil, &RefusedError{path, response.StatusCode, strings.TrimSpace(string(message))}
	}
	return response.Body, nil
}

// Version returns Envoy's version, as in 1.40.0.
func (a *Admin) Version(ctx context.Context) (string, error) {
	var info struct {
		Version string `json:"version"` // COMMIT/1.40.0/Clean/RELEASE/BoringSSL
	}
	if err := a.JSON(ctx, "/server_info", &info); err != nil {
		return "", err
	}
	if parts := strings.Split(info.Version, "/"); len(parts) > 1 {
		return parts[1], nil
	}
	return info.Version, nil
}
