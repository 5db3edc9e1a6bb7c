package kubetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/pgmesh/pgmesh/internal/testbench/poll"
)

// Object is a part of an object, as JSON has it.
type Object map[string]any

// Apply makes the object at a path this one, whether it is there or not: /api/v1/namespaces/shop.
func (c *Cluster) Apply(path string, o Object) {
	c.t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.must(http.MethodPatch, path+"?fieldManager=test&force=true", text)
}

// ApplyStatus does so with the status of an object.
func (c *Cluster) ApplyStatus(path string, o Object) {
	c.t.Helper()
	c.Apply(path+"/status", o)
}

// Delete removes what is at a path.
func (c *Cluster) Delete(path string) {
	c.t.Helper()
	c.must(http.MethodDelete, path, []byte(`{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"propagationPolicy":"Background"}`))
}

// Post sends a document to a path.
func (c *Cluster) Post(path string, o Object) []byte {
	c.t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.must(http.MethodPost, path, text)
}

// Get asks for what is at a path.
func (c *Cluster) Get(path string) []byte {
	c.t.Helper()
	return c.must(http.MethodGet, path, nil)
}

// Namespace makes a namespace.
func (c *Cluster) Namespace(name string) {
	c.t.Helper()
	c.Apply("/api/v1/namespaces/"+name, Object{"apiVersion": "v1", "kind": "Namespace", "metadata": Object{"name": name}})
}

// errRefused says that the server has answered, and with an error.
var errRefused = errors.New("it is refused")

// must fails the test if there is no answer. A connection that has just broken is made anew.
func (c *Cluster) must(method, path string, body []byte) (answer []byte) {
	c.t.Helper()
	var refused error
	poll.Eventually(c.t, func(ctx context.Context) error {
		var err error
		answer, err = c.ask(ctx, method, path, body)
		if refused = nil; errors.Is(err, errRefused) {
			refused = err
			return nil
		}
		return err
	})
	if refused != nil {
		c.t.Fatal(refused)
	}
	return answer
}

// contentTypes are those of the bodies of each method.
var contentTypes = map[string]string{http.MethodPatch: "application/apply-patch+yaml"}

func (c *Cluster) ask(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	return c.askAs(ctx, method, cmp.Or(contentTypes[method], "application/json"), path, body)
}

func (c *Cluster) askAs(ctx context.Context, method, contentType, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, "https://"+c.Address+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", contentType)
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode >= http.StatusInternalServerError || response.StatusCode == http.StatusTooManyRequests:
		return nil, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	case response.StatusCode >= http.StatusBadRequest:
		return nil, fmt.Errorf("%s %s: %w: %s: %s", method, path, errRefused, response.Status, answer)
	}
	return answer, nil
}

// Watch tells when the server says that an object of a list has changed, as its own client would be
// told: it is the floor of what others can do.
func (c *Cluster) Watch(path string) <-chan time.Time {
	c.t.Helper()
	var list struct {
		Metadata struct{ ResourceVersion string }
	}
	if err := json.Unmarshal(c.Get(path+"?limit=1"), &list); err != nil {
		c.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, "https://"+c.Address+path+"?watch=true&resourceVersion="+list.Metadata.ResourceVersion, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := c.client.Transport.RoundTrip(request) //nolint:bodyclose // whoever reads it closes it
	if err != nil {
		c.t.Fatal(err)
	}
	told := make(chan time.Time, 1000)
	go func() {
		defer response.Body.Close()
		for decoder := json.NewDecoder(response.Body); ; {
			var event struct{ Type string }
			if decoder.Decode(&event) != nil {
				return
			}
			told <- time.Now()
		}
	}()
	return told
}
