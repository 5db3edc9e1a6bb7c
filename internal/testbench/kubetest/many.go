package kubetest

import (
	"encoding/json"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// Creation is an object that is not there yet, with the path of its list.
type Creation struct {
	Path   string
	Object Object
}

// creators is how many objects are created at a time.
const creators = 16

// Create creates many objects, many at a time.
func (c *Cluster) Create(all []Creation) {
	c.t.Helper()
	group, ctx := errgroup.WithContext(c.t.Context())
	group.SetLimit(creators)
	for _, one := range all {
		group.Go(func() error {
			text, err := json.Marshal(one.Object)
			if err == nil {
				_, err = c.ask(ctx, http.MethodPost, one.Path, text)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		c.t.Fatal(err)
	}
}
