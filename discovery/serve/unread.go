package serve

import (
	"context"
	"fmt"
	"sync"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/mcp"
)

// unread keeps what an MCP server has no more of registries that it has not read: a server that was
// started while a registry is away serves without it, and what is missing may be there.
type unread struct {
	apply func(kinds.Batch) error
	last  kinds.Batch // without its changes

	mu    sync.Mutex
	has   map[kinds.Key]*kinds.Resource // of registries
	gone  map[kinds.Key]bool            // of has: what the server has no more, and is not believed of yet
	wrong error                         // why what was kept could not be given up
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

// synced is called when all has come that the server has. If that was nothing new, there was no batch
// with which to give up what it is believed of now.
func (f followed) synced() {
	u := f.unread
	if changes := u.believed(nil, notRead(f.Status().Standing)); len(changes) > 0 {
		b := u.last
		b.Changes = changes
		u.wrong = u.apply(b)
	}
}

// notRead are the registries of which a server does not know what they have now.
func notRead(s *mcp.Standing) map[string]bool {
	out := map[string]bool{}
	if s == nil {
		return out
	}
	for _, r := range s.Registries {
		if !r.Read || !r.Stale.IsZero() {
			out[r.Name] = true
		}
	}
	return out
}

// believed leaves out of changes what is missing of registries that were not read, and adds what was
// left out of those that have been read since.
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

// about says what is kept; "" if nothing is.
func (u *unread) about(server string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.gone) == 0 {
		return ""
	}
	return fmt.Sprintf("%d resources of registries stay that %s has not read since it was started", len(u.gone), server)
}
