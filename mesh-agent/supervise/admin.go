package supervise

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"
)

// lookEvery is how often a draining Envoy is asked whether connections are left.
const lookEvery = 100 * time.Millisecond

// adminClient keeps no idle connection: the admin API is asked rarely, and by a process that may be gone the next time.
var adminClient = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// drain tells clients to go elsewhere and returns when no connection is left, at the latest after limit. Envoy still
// accepts connections meanwhile: applications on this machine may be ending too, and still need their network.
func (e *envoy) drain(limit time.Duration, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	// A failed health check makes Envoy ask every client to leave with its next answer. By itself it would ask them one after the
	// other, over the time that it takes for replaced listeners.
	for _, order := range []string{"/healthcheck/fail", "/drain_listeners?graceful"} {
		if _, err := e.ask(ctx, http.MethodPost, order); err != nil {
			log.Warn("Envoy cannot be drained, its connections will be cut", "error", err)
			return
		}
	}
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for e.hasConnections(ctx) {
		select {
		case <-look.C:
		case <-e.Done():
			return
		case <-ctx.Done():
			log.Warn("connections are still open at the end of the drain time, they will be cut", "drain", limit)
			return
		}
	}
}

// hasConnections is true in doubt.
func (e *envoy) hasConnections(ctx context.Context) bool {
	stats, err := e.ask(ctx, http.MethodGet, `/stats?usedonly&filter=^listener\..*\.downstream_cx_active$`)
	if err != nil {
		return true
	}
	for line := range strings.Lines(stats) {
		isAdmin := strings.HasPrefix(line, "listener.admin.")
		if !isAdmin && !strings.HasSuffix(strings.TrimSpace(line), ": 0") {
			return true
		}
	}
	return false
}

func (e *envoy) ready(ctx context.Context) error {
	_, err := e.ask(ctx, http.MethodGet, "/ready")
	return err
}

func (e *envoy) ask(ctx context.Context, method, path string) (string, error) {
	address, err := os.ReadFile(e.adminFile)
	if err != nil {
		return "", errNotStarted
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+strings.TrimSpace(string(address))+path, nil)
	if err != nil {
		return "", err
	}
	response, err := adminClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("ask Envoy's admin API: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", fmt.Errorf("read the answer of Envoy's admin API: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("Envoy answers %s with %s", path, strings.TrimSpace(string(body)))
	}
	return string(body), nil
}
