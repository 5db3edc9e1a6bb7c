// Package client asks the API server of a Kubernetes cluster: it reads lists, page by page, and
// follows their changes.
//
// It is a few lines over net/http in place of Kubernetes' own client, which has every kind of
// Kubernetes in it and would double the memory of a server. Answers are JSON, or protobuf where that is
// wanted and the server has it, of which only what is wanted is decoded, one object at a time.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pgmesh/pgmesh/registry/kubernetes/kubeconfig"
)

// Client asks one cluster.
type Client struct {
	// Access says where the cluster is, and who asks. It is asked each time, for tokens and
	// certificates are renewed.
	Access func() *kubeconfig.Access
	// Transport makes the connections.
	Transport http.RoundTripper
	// Patience is how long nothing of an answer may come.
	Patience time.Duration
}

// userAgent tells those who run the cluster who asks.
const userAgent = "pgmesh"

// answer is the body of an answer that has begun. Close ends it.
type answer struct {
	io.ReadCloser

	compact bool // it is protobuf
	end     context.CancelFunc
	timer   *time.Timer
	limit   atomic.Int64 // how long nothing may come, in nanoseconds
	silent  atomic.Bool  // nothing came for too long
}

// question is what is asked of the cluster.
type question struct {
	method, path string
	query        url.Values
	patch        []byte // nil if it changes nothing
	compact      bool   // the answer may be protobuf
}

// get asks for what is at a path.
func (c *Client) get(ctx context.Context, path string, query url.Values) (*answer, error) {
	return c.ask(ctx, question{method: http.MethodGet, path: path, query: query})
}

// ask sends a question and returns the answer, if it is none of an error.
func (c *Client) ask(ctx context.Context, q question) (*answer, error) {
	access := c.Access()
	ctx, cancel := context.WithCancel(ctx)
	a := &answer{end: cancel}
	a.limit.Store(int64(c.Patience))
	a.timer = time.AfterFunc(c.Patience, func() {
		a.silent.Store(true)
		cancel()
	})
	response, err := c.send(ctx, access, q) //nolint:bodyclose // the answer has it
	if err != nil {
		a.stop()
		return nil, a.failed(access, err)
	}
	a.ReadCloser, a.compact = response.Body, isCompact(response)
	if response.StatusCode != http.StatusOK {
		defer a.Close()
		return nil, refusalOf(response, q, a)
	}
	return a, nil
}

func (c *Client) send(ctx context.Context, access *kubeconfig.Access, q question) (*http.Response, error) {
	at := strings.TrimSuffix(access.Server.String(), "/") + q.path
	if len(q.query) > 0 {
		at += separator(q.path) + q.query.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, q.method, at, bytes.NewReader(q.patch))
	if err != nil {
		return nil, err
	}
	if q.patch != nil {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	request.Header.Set("Accept", q.accepts())
	request.Header.Set("User-Agent", userAgent)
	if err := access.Authorize(request.Header); err != nil {
		return nil, err
	}
	return c.Transport.RoundTrip(request)
}

// compactType is the type of Kubernetes' protobuf. Custom resources have none.
const compactType = "application/vnd.kubernetes.protobuf"

// accepts is what the answer may be, the best of it first.
func (q question) accepts() string {
	if q.compact {
		return compactType + ", application/json"
	}
	return "application/json"
}

func isCompact(response *http.Response) bool {
	sort, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return err == nil && sort == compactType
}

// separator is what stands before a query, after a path that may have some of it already.
func separator(path string) string {
	if strings.Contains(path, "?") {
		return "&"
	}
	return "?"
}

// Read reads on, and gives the rest of the answer its time anew.
func (a *answer) Read(into []byte) (int, error) {
	n, err := a.ReadCloser.Read(into)
	if n > 0 {
		a.timer.Reset(time.Duration(a.limit.Load()))
	}
	return n, err
}

// wait changes how long nothing may come.
func (a *answer) wait(limit time.Duration) {
	a.limit.Store(int64(limit))
	a.timer.Reset(limit)
}

// Close ends the answer.
func (a *answer) Close() error {
	a.stop()
	return a.ReadCloser.Close()
}

func (a *answer) stop() {
	a.timer.Stop()
	a.end()
}

// failed says what a failure means. It does not name what was asked for, so that one reason that all
// questions have is told once.
func (a *answer) failed(access *kubeconfig.Access, err error) error {
	if a.silent.Load() {
		return fmt.Errorf("Kubernetes at %s did not answer within %s", access.Server.Host, time.Duration(a.limit.Load()))
	}
	if outer, is := errors.AsType[*url.Error](err); is {
		err = outer.Err
	}
	return fmt.Errorf("ask Kubernetes at %s: %w", access.Server.Host, err)
}
