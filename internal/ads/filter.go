package ads

// Filter brings a set, which has what keep lets through of an older set, to what it lets through of a newer one. It costs what has
// changed between the two. The result and the set that it was made from are of one line, as if made by With.
func Filter(kept, older, newer *Set, keep func(*Resource) bool) *Set {
	if kept != nil && older == newer {
		return kept
	}
	names, exact := newer.changedSince(older)
	if !exact || kept == nil {
		return filterAll(kept, newer, keep)
	}
	var upserts []*Resource
	var removed []string
	for _, name := range names {
		if r := newer.Get(name); r != nil && keep(r) {
			upserts = append(upserts, r)
		} else {
			removed = append(removed, name)
		}
	}
	return kept.With(upserts, removed)
}

func filterAll(kept, newer *Set, keep func(*Resource) bool) *Set {
	var upserts []*Resource
	var removed []string
	for r := range newer.All() {
		if keep(r) {
			upserts = append(upserts, r)
		}
	}
	for r := range kept.All() {
		if now := newer.Get(r.Name); now == nil || !keep(now) {
			removed = append(removed, r.Name)
		}
	}
	return kept.With(upserts, removed)
}
