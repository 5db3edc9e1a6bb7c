package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/pgmesh/pgmesh/internal/testbench/stack"
)

// scrape reads the metrics of a program: series with their labels, as they are printed, to values.
func scrape(ctx context.Context, p *stack.Program) (map[string]float64, error) {
	status, body, err := fetch(ctx, "http://"+p.HTTP()+"/metrics")
	if err != nil || status != http.StatusOK {
		return nil, fmt.Errorf("read the metrics at %s: status %d, %w", p.HTTP(), status, err)
	}
	metrics := map[string]float64{}
	for line := range strings.Lines(body) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			if value, err := strconv.ParseFloat(strings.TrimSpace(line[i:]), 64); err == nil {
				metrics[line[:i]] = value
			}
		}
	}
	return metrics, nil
}

func isRefusal(series string) bool {
	return strings.HasPrefix(series, "pgmesh_discovery_answers_total{") && strings.Contains(series, `answer="nack"`)
}

// fetch asks a program about itself, on a connection of its own.
func fetch(ctx context.Context, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}
