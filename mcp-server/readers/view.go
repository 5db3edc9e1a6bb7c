package readers

import (
	"github.com/pgmesh/pgmesh/internal/ads/served"
	"github.com/pgmesh/pgmesh/kinds"
	mcpv1 "github.com/pgmesh/pgmesh/proto/pgmesh/mcp/v1"
)

// view is a filtered snapshot, shared by all clients with the same filter.
type view struct {
	filter  filter
	digest  string
	members map[*member]struct{}

	source *served.Snapshot // that shown was made from
	shown  *served.Snapshot
}

func newView(f filter) *view {
	return &view{filter: f, digest: f.digest(), members: map[*member]struct{}{}}
}

// snapshot filters a snapshot.
func (v *view) snapshot(source *served.Snapshot) *served.Snapshot {
	if len(v.filter.secrets) == 0 && source.Without != nil {
		source = source.Without
	}
	if v.source == source {
		return v.shown
	}
	older, shown := v.source, v.shown
	if v.source, v.shown = source, source; v.filter.showsEverything() {
		return source
	}
	if older == nil {
		older, shown = &served.Snapshot{}, &served.Snapshot{}
	}
	v.shown = &served.Snapshot{Revision: source.Revision, Sets: make(map[string]*served.Set, len(source.Sets)), Withheld: source.Withheld}
	for typeURL, newer := range source.Sets {
		v.shown.Sets[typeURL] = v.filterType(typeURL, shown.Sets[typeURL], older.Sets[typeURL], newer)
	}
	return v.shown
}

// filterType filters one type. A type that is no kind describes the server, and is shown to
// everybody.
func (v *view) filterType(typeURL string, shown, older, newer *served.Set) *served.Set {
	if typeURL == mcpv1.BatchTypeURL {
		return v.ownMarks(shown, older, newer)
	}
	if typeURL == kinds.Secret.TypeURL() {
		return served.Filter(shown, older, newer, v.filter.showsSecret)
	}
	k, isKind := kinds.ByTypeURL(typeURL)
	if !isKind {
		return newer
	}
	switch all, none := v.filter.showsKind(k); {
	case all:
		return newer
	case none:
		return nil
	}
	return served.Filter(shown, older, newer, func(r *served.Resource) bool { return v.filter.shows(k, r) })
}

// ownMarks gives the marks that end batches a version of this view. So a client that moves to
// another view within one revision waits for the end of that move.
func (v *view) ownMarks(shown, older, newer *served.Set) *served.Set {
	if shown != nil && older == newer {
		return shown
	}
	var marks []*served.Resource
	for r := range newer.All() {
		marks = append(marks, &served.Resource{Name: r.Name, Version: r.Version + "~" + v.digest, Body: r.Body})
	}
	return shown.With(marks, nil)
}
