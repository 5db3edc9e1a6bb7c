package readers

import (
	"github.com/pgmesh/pgmesh/internal/ads"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// view is what all those are shown who have the same filter. It is made once for all of them, out of what changed.
type view struct {
	filter  filter
	digest  string
	members map[*member]struct{}

	source *ads.Snapshot // that the current one was made of
	shown  *ads.Snapshot
}

func newView(f filter) *view {
	return &view{filter: f, digest: f.digest(), members: map[*member]struct{}{}}
}

// snapshot is what the view shows of a snapshot.
func (v *view) snapshot(source *ads.Snapshot) *ads.Snapshot {
	if len(v.filter.secrets) == 0 && source.Without != nil {
		source = source.Without
	}
	if v.source == source {
		return v.shown
	}
	older, shown := v.source, v.shown
	if v.source, v.shown = source, source; v.filter.everything() {
		return source
	}
	if older == nil {
		older, shown = &ads.Snapshot{}, &ads.Snapshot{}
	}
	v.shown = &ads.Snapshot{Revision: source.Revision, Sets: make(map[string]*ads.Set, len(source.Sets)), Withheld: source.Withheld}
	for typeURL, newer := range source.Sets {
		v.shown.Sets[typeURL] = v.part(typeURL, shown.Sets[typeURL], older.Sets[typeURL], newer)
	}
	return v.shown
}

// part is what the view shows of a type. What is no kind tells of the server, and is for all.
func (v *view) part(typeURL string, shown, older, newer *ads.Set) *ads.Set {
	if typeURL == mcpv1.BatchTypeURL {
		return v.marked(shown, older, newer)
	}
	if typeURL == kinds.Secret.TypeURL() {
		return ads.Filter(shown, older, newer, v.filter.keepsSecret)
	}
	k, isKind := kinds.ByTypeURL(typeURL)
	if !isKind {
		return newer
	}
	switch all, none := v.filter.whole(k); {
	case all:
		return newer
	case none:
		return nil
	}
	return ads.Filter(shown, older, newer, func(r *ads.Resource) bool { return v.filter.keeps(k, r) })
}

// marked makes the marks that end batches those of this view: who is moved to another view while the revision stays waits for the
// end of what that changes.
func (v *view) marked(shown, older, newer *ads.Set) *ads.Set {
	if shown != nil && older == newer {
		return shown
	}
	var marks []*ads.Resource
	for r := range newer.All() {
		marks = append(marks, &ads.Resource{Name: r.Name, Version: r.Version + "~" + v.digest, Body: r.Body})
	}
	return shown.With(marks, nil)
}
