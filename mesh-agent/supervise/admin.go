package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// adminClient keeps no idle connection: the admin API is asked rarely, and by a process that may be gone the next time.
var adminClient = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

var errNotStarted = errors.New("Envoy has not started yet")

// admin is the admin API of Envoy, which writes its address to a file.
type admin string

func (a admin) address() (string, error) {
	address, err := os.ReadFile(string(a))
	if err != nil || len(address) == 0 {
		return "", errNotStarted
	}
	return strings.TrimSpace(string(address)), nil
}

// ready is nil when Envoy has its first configuration and accepts traffic.
func (a admin) ready(ctx context.Context) error {
	_, err := a.ask(ctx, http.MethodGet, "/ready")
	return err
}

func (a admin) ask(ctx context.Context, method, path string) (string, error) {
	address, err := a.address()
	if err != nil {
		return "", err
	}
	request, err := http.NewRequestWithContext(ctx, method, "http://"+address+path, nil)
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
