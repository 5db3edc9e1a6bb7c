package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

// request is a client's request. Method and Path may be left out.
type request struct {
	host, method, path string
	header             http.Header
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
	// seen is the request as the backend saw it, if one answered.
	seen seen
}

func newClient(t testing.TB) *http.Client {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// send sends a request to an address.
func send(ctx context.Context, client *http.Client, address string, r request) (*answer, error) {
	return sendURL(ctx, client, "http://"+address+"/"+strings.TrimPrefix(r.path, "/"), r)
}

func sendURL(ctx context.Context, client *http.Client, url string, r request) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, r.method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Host = r.host
	maps.Copy(req.Header, r.header)
	start := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	a := &answer{status: resp.StatusCode, header: resp.Header, body: string(body), took: time.Since(start)}
	if resp.Header.Get("Backend") != "" {
		if err := json.Unmarshal(body, &a.seen); err != nil {
			return nil, fmt.Errorf("decode the backend's answer %q: %w", body, err)
		}
	}
	return a, nil
}

// from returns an error unless the answer is a good one of this backend.
func (a *answer) from(name string) error {
	if a.status != http.StatusOK || a.seen.Backend != name {
		return fmt.Errorf("answered %d by backend %q, want %q; %q", a.status, a.seen.Backend, name, a.body)
	}
	return nil
}
