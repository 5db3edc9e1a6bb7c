package kubetest

import (
	"context"
	"encoding/json"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// Creation is an object that is not there yet, with the path of its list.
type Creation struct {
	Path   string
	Object Object
}

// How many objects are created at a time, and how many statuses are written.
const (
	creators = 16
	writers  = 32
)

// Create creates many objects, many at a time.
func (c *Cluster) Create(all []Creation) {
	c.t.Helper()
	atOnce(c, creators, all, func(ctx context.Context, one Creation) error {
		text, err := json.Marshal(one.Object)
		if err == nil {
			_, err = c.ask(ctx, http.MethodPost, one.Path, text)
		}
		return err
	})
}

// MergeStatuses merges one status into that of each object at these paths, many at a time: as quickly
// as a client that does nothing else.
func (c *Cluster) MergeStatuses(paths []string, status Object) {
	c.t.Helper()
	text, err := json.Marshal(Object{"status": status})
	if err != nil {
		c.t.Fatal(err)
	}
	atOnce(c, writers, paths, func(ctx context.Context, path string) error {
		_, err := c.askAs(ctx, http.MethodPatch, "application/merge-patch+json", path+"/status", text)
		return err
	})
}

// atOnce does something for each of many, and no more than so many at a time.
func atOnce[T any](c *Cluster, most int, all []T, do func(context.Context, T) error) {
	c.t.Helper()
	group, ctx := errgroup.WithContext(c.t.Context())
	group.SetLimit(most)
	for _, one := range all {
		group.Go(func() error { return do(ctx, one) })
	}
	if err := group.Wait(); err != nil {
		c.t.Fatal(err)
	}
}
