package served

// Filter updates a filtered set: kept has the resources of older that pass keep, and the result has
// those of newer. It costs what has changed between older and newer. The result shares its change
// log with kept, as if made by With.
func Filter(kept, older, newer *Set, keep func(*Resource) bool) *Set {
	if kept != nil && older == newer {
		return kept
	}
	names, exact := newer.ChangedSince(older)
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
