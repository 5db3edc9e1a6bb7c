package promtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Sample is one series of an answer, with its newest value.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query evaluates an expression now.
func (p *Prometheus) Query(ctx context.Context, expression string) ([]Sample, error) {
	var vector []struct {
		Metric map[string]string
		Value  [2]any
	}
	if err := p.ask(ctx, "/api/v1/query?query="+url.QueryEscape(expression), &vector); err != nil {
		return nil, fmt.Errorf("%s: %w", expression, err)
	}
	samples := make([]Sample, len(vector))
	for i, v := range vector {
		text, _ := v.Value[1].(string)
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", expression, err)
		}
		samples[i] = Sample{Labels: v.Metric, Value: value}
	}
	return samples, nil
}

// ask decodes the result of a query that gives a vector.
func (p *Prometheus) ask(ctx context.Context, path string, result any) error {
	body, err := p.get(ctx, path)
	if err != nil {
		return err
	}
	answer := struct {
		Data struct {
			ResultType string
			Result     json.RawMessage
		}
	}{}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err
	}
	if answer.Data.ResultType != "vector" {
		return fmt.Errorf("the result is a %s, not a vector", answer.Data.ResultType)
	}
	return json.Unmarshal(answer.Data.Result, result)
}

// Targets says how the last scrape of each target went, for tests that fail.
func (p *Prometheus) Targets(ctx context.Context) string {
	body, err := p.get(ctx, "/api/v1/targets?state=active")
	if err != nil {
		return err.Error()
	}
	var answer struct {
		Data struct {
			ActiveTargets []struct{ ScrapeURL, LastError, Health string }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+v", answer.Data.ActiveTargets)
}

func (p *Prometheus) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.Address+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("Prometheus answers %s: %s", response.Status, body)
	}
	return body, err
}
