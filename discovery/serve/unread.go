package serve

import (
	"context"
	"fmt"
	"sync"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// unread holds removals back while an MCP server has not read the registry that the resources are of. A
// server that was started while a registry is away serves without it.
type unread struct {
	apply func(kinds.Batch) error
	last  kinds.Batch // without its changes

	mu    sync.Mutex
	has   map[kinds.Key]*kinds.Resource // of registries
	gone  map[kinds.Key]bool            // of has: removals that are held back
	wrong error                         // why removals that were held back could not be applied
}

func newUnread() *unread {
	return &unread{has: map[kinds.Key]*kinds.Resource{}, gone: map[kinds.Key]bool{}}
}

// Run follows the server.
func (f followed) Run(ctx context.Context, apply func(kinds.Batch) error) error {
	f.unread.apply = apply
	return f.Client.Run(ctx, func(b kinds.Batch) error {
		b.Changes = f.unread.believed(b.Changes, notRead(f.Status().Standing))
		f.unread.last = kinds.Batch{Revision: b.Revision, Mark: b.Mark, Committed: b.Committed}
		if err := apply(b); err != nil {
			return err
		}
		return f.unread.wrong
	})
}

// synced is called when the server has sent everything. If nothing was new, there was no batch, and the
// removals that are now certain are applied here.
func (f followed) synced() {
	u := f.unread
	if changes := u.believed(nil, notRead(f.Status().Standing)); len(changes) > 0 {
		b := u.last
		b.Changes = changes
		u.wrong = u.apply(b)
	}
}

// notRead are the registries that a server is behind.
func notRead(s *mcp.Standing) map[string]bool {
	out := map[string]bool{}
	if s == nil {
		return out
	}
	for _, r := range s.Registries {
		if r.Behind() != nil {
			out[r.Name] = true
		}
	}
	return out
}

// believed holds back the removals of registries that were not read, and adds those that were held back
// of registries that have been read since.
func (u *unread) believed(changes []kinds.Change, notRead map[string]bool) []kinds.Change {
	u.mu.Lock()
	defer u.mu.Unlock()
	out := make([]kinds.Change, 0, len(changes))
	for _, c := range changes {
		switch had := u.has[c.Key]; {
		case c.Resource == nil && had != nil && notRead[had.Origin()]:
			u.gone[c.Key] = true
			continue
		case c.Resource != nil && c.Resource.Origin() != "":
			u.has[c.Key] = c.Resource
		default:
			delete(u.has, c.Key)
		}
		delete(u.gone, c.Key)
		out = append(out, c)
	}
	for key := range u.gone {
		if !notRead[u.has[key].Origin()] {
			delete(u.gone, key)
			delete(u.has, key)
			out = append(out, kinds.Change{Key: key})
		}
	}
	return out
}

// about says how much is held back; "" if nothing is.
func (u *unread) about(server string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.gone) == 0 {
		return ""
	}
	return fmt.Sprintf("%d resources of registries stay that %s has not read since it was started", len(u.gone), server)
}
