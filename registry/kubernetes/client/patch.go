package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
)

// Patch merges a change into what is at a path, and decodes what that is afterwards. The change names
// the version that it is made to: a newer one refuses it (Refusal.Conflict).
func (c *Client) Patch(ctx context.Context, path string, change []byte, into any) error {
	a, err := c.ask(ctx, question{method: http.MethodPatch, path: path, patch: change})
	if err != nil {
		return err
	}
	defer a.Close()
	text, err := io.ReadAll(io.LimitReader(a, largest))
	if err != nil {
		return a.failed(c.Access(), err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return &Garbage{err}
	}
	return nil
}
