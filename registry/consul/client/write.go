package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// Change sends a document to a path, and decodes the answer into what is given for it, if anything
// is. It decodes also what says why a transaction was refused.
func (c *Client) Change(ctx context.Context, path string, parameters url.Values, document, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.Patience)
	defer cancel()
	body, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("write what Consul is sent to %s: %w", path, err)
	}
	request, err := c.request(ctx, http.MethodPut, path, parameters, body)
	if err != nil {
		return err
	}
	response, err := c.Transport.RoundTrip(request)
	if err != nil {
		return c.failed(ctx, path, c.Patience, err)
	}
	defer response.Body.Close()
	switch {
	case response.StatusCode == http.StatusConflict && into != nil:
		if err := json.NewDecoder(io.LimitReader(response.Body, largest)).Decode(into); err != nil {
			return c.failed(ctx, path, c.Patience, err)
		}
		return &Refusal{response.StatusCode, "Consul has not made a transaction"}
	case response.StatusCode != http.StatusOK:
		return refusalOf(response, path, "give a token with the rights that docs/consul.md lists, with token-file")
	}
	return c.finish(ctx, path, response.Body, into)
}

func (c *Client) finish(ctx context.Context, path string, from io.Reader, into any) error {
	limited := &io.LimitedReader{R: from, N: largest}
	var err error
	if into == nil {
		_, err = io.Copy(io.Discard, limited) // so that the connection can be used again
	} else {
		err = decode(limited, into)
	}
	if err != nil {
		return c.failed(ctx, path, c.Patience, err)
	}
	return nil
}
