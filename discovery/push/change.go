package push

import "github.com/pgmesh/pgmesh/kinds"

// Change is one resource before and after a revision; nil where there is none.
type Change struct{ Before, After *kinds.Resource }

// ofSecrets tells whether the change is one of a secret.
func (c *Change) ofSecrets() bool {
	return c.Before != nil && c.Before.Kind == kinds.Secret || c.After != nil && c.After.Kind == kinds.Secret
}
