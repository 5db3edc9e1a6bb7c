// Package client asks an agent of Consul over HTTP.
//
// It is a few lines over net/http in place of Consul's own client: a few questions are asked, and
// that client brings the modules of Consul's gossip, logs and metrics with it, decodes answers of
// any size, and reads its token from the environment.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client asks one agent, or one server.
type Client struct {
	// Base is where it is: http://127.0.0.1:8500.
	Base *url.URL
	// Token returns the ACL token, "" for none. It is asked each time, for tokens are renewed.
	Token func() string
	// Transport makes the connections.
	Transport http.RoundTripper
	// Patience is how long an answer may take beyond what was asked for.
	Patience time.Duration
	// Always are parameters of every question: the namespace and the partition.
	Always url.Values
}

// Query is a question.
type Query struct {
	// Path has its parts escaped: /v1/health/service/web.
	Path       string
	Datacenter string
	// After makes it wait for an answer with a later index, for as long as Wait. 0 does not wait.
	After uint64
	Wait  time.Duration
	// Consistent has the leader make sure that it is the leader, and that it has caught up. Without
	// it a server that has just started may answer with an older state.
	Consistent bool
	// Known is the index of an answer that need not be decoded again, if nothing is left out of it.
	Known uint64
}

// Meta is what an answer says beside its content.
type Meta struct {
	Index uint64
	// Unchanged says that the index is the known one, and nothing was decoded.
	Unchanged bool
	// Streams says that questions share connections.
	Streams bool
	// Filtered says that the token may not see all that there is.
	Filtered bool
	// Decoding is how long the content took to read.
	Decoding time.Duration
}

// largest bounds an answer. 100,000 instances of one service take less.
const largest = 128 << 20

// Ask asks, and decodes the answer.
func (c *Client) Ask(ctx context.Context, q Query, into any) (Meta, error) {
	ctx, cancel := context.WithTimeout(ctx, c.limit(q))
	defer cancel()
	parameters := q.parameters()
	maps.Copy(parameters, c.Always)
	request, err := c.request(ctx, http.MethodGet, q.Path, parameters, nil)
	if err != nil {
		return Meta{}, err
	}
	response, err := c.Transport.RoundTrip(request)
	if err != nil {
		return Meta{}, c.failed(ctx, q.Path, c.limit(q), err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return Meta{}, refusalOf(response, q.Path, "give a token that may read services and nodes, with token-file")
	}
	meta, err := read(response, q, into)
	if err != nil {
		return meta, c.failed(ctx, q.Path, c.limit(q), err)
	}
	return meta, nil
}

// limit is how long the answer may take: Consul adds up to a sixteenth to a wait.
func (c *Client) limit(q Query) time.Duration { return q.Wait + q.Wait/16 + c.Patience }

func (c *Client) request(ctx context.Context, method, path string, parameters url.Values, body []byte) (*http.Request, error) {
	at, err := url.Parse(strings.TrimSuffix(c.Base.String(), "/") + path)
	if err != nil {
		return nil, fmt.Errorf("ask Consul for %s: %w", path, err)
	}
	at.RawQuery = parameters.Encode()
	request, err := http.NewRequestWithContext(ctx, method, at.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("ask Consul for %s: %w", path, err)
	}
	if token := c.Token(); token != "" {
		request.Header.Set("X-Consul-Token", token)
	}
	return request, nil
}

func (q Query) parameters() url.Values {
	parameters := url.Values{}
	if q.Datacenter != "" {
		parameters.Set("dc", q.Datacenter)
	}
	if q.After > 0 {
		parameters.Set("index", strconv.FormatUint(q.After, 10))
		parameters.Set("wait", strconv.FormatInt(q.Wait.Milliseconds(), 10)+"ms")
	}
	if q.Consistent {
		parameters.Set("consistent", "")
	}
	return parameters
}

// failed says what a failure means: a deadline alone says nothing to people.
func (c *Client) failed(ctx context.Context, path string, limit time.Duration, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("Consul at %s did not answer %s within %s", c.Base.Host, path, limit)
	}
	return fmt.Errorf("ask Consul at %s for %s: %w", c.Base.Host, path, err)
}

func read(response *http.Response, q Query, into any) (Meta, error) {
	meta := Meta{Streams: response.ProtoMajor >= 2, Filtered: response.Header.Get("X-Consul-Results-Filtered-By-ACLs") == "true"}
	var err error
	if meta.Index, err = strconv.ParseUint(response.Header.Get("X-Consul-Index"), 10, 64); err != nil && !q.unindexed() {
		return meta, &Garbage{errors.New("the answer has no X-Consul-Index, so this is no Consul, or a proxy hides it")}
	}
	body := &io.LimitedReader{R: response.Body, N: largest}
	if q.Known != 0 && meta.Index == q.Known && !meta.Filtered { // rights change no index
		meta.Unchanged = true
		_, err := io.Copy(io.Discard, body) // so that the connection can be used again
		return meta, err
	}
	begun := time.Now()
	err = decode(body, into)
	meta.Decoding = time.Since(begun)
	return meta, err
}

// Datacenters is the path of the list of datacenters, which has no index.
const Datacenters = "/v1/catalog/datacenters"

func (q Query) unindexed() bool { return q.Path == Datacenters }

func decode(body *io.LimitedReader, into any) error {
	decoder := json.NewDecoder(body)
	err := decoder.Decode(into)
	if err == nil {
		_, err = io.Copy(io.Discard, body)
	}
	if body.N == 0 {
		return &Garbage{fmt.Errorf("the answer has more than %d bytes", largest)}
	}
	var network interface{ Timeout() bool }
	if err == nil || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, context.Canceled) {
		return err
	}
	return &Garbage{fmt.Errorf("the answer cannot be read: %w", err)}
}
