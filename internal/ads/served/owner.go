package served

import (
	"iter"
	"strings"
)

// OwnerOf returns the name of the resource that owns another: what comes before the last slash of
// its name.
func OwnerOf(name string) string { return name[:max(0, strings.LastIndexByte(name, '/'))] }

// OwnedBy iterates over what one owner owns, in the order of names.
func (s *Set) OwnedBy(owner string) iter.Seq[*Resource] {
	return func(yield func(*Resource) bool) {
		if s.Len() == 0 {
			return
		}
		prefix := owner + "/"
		for _, page := range s.pages[s.pages.of(prefix):] {
			for _, r := range page {
				switch {
				case r.Name < prefix:
				case !strings.HasPrefix(r.Name, prefix):
					return
				case OwnerOf(r.Name) == owner && !yield(r):
					return
				}
			}
		}
	}
}
