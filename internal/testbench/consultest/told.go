package consultest

import (
	"io"
	"net/http"
	"time"
)

// Told returns when a client is told that waits for the next change of a service alone. It is the
// floor of what others can do.
func (c *Consul) Told(service string) <-chan time.Time {
	c.t.Helper()
	path := "http://" + c.Address + "/v1/health/service/" + service
	index := ""
	if first, err := c.waits(path); err == nil {
		index = first.Header.Get("X-Consul-Index")
		first.Body.Close()
	}
	if index == "" {
		c.t.Fatalf("Consul does not answer for %s", service)
	}
	told := make(chan time.Time, 1)
	go func() {
		if response, err := c.waits(path + "?index=" + index); err == nil {
			told <- time.Now()
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
	}()
	return told
}

func (c *Consul) waits(url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("X-Consul-Token", c.Token)
	return client.Do(request)
}
