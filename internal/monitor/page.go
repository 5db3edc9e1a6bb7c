package monitor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// Page is a page that a program serves.
type Page struct {
	Path  string // a path that ends with / also serves all paths below it
	About string // a sentence
	http.Handler
}

// indexPath is the page that lists all pages.
const indexPath = "/debug"

// entry is one page in that list.
type entry struct {
	Path  string `json:"path"`
	About string `json:"about"`
}

// withIndex serves the pages and their index. For an unknown path it suggests the nearest one.
func withIndex(pages []Page) http.Handler {
	mux := http.NewServeMux()
	list, paths := []*entry{}, []string{}
	pages = append(pages, Page{Path: indexPath, About: "Lists the pages.", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		WriteJSON(w, list)
	})})
	for _, p := range pages {
		mux.Handle("GET "+p.Path, p)
		list, paths = append(list, &entry{p.Path, p.About}), append(paths, p.Path)
	}
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.Path, b.Path) })
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, fmt.Sprintf("there is no page %s: %s", r.URL.Path, nearest.Hint(r.URL.Path, paths, "there are ")), http.StatusNotFound)
	})
	return mux
}

// WriteJSON answers with a value as indented JSON.
func WriteJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(v); err != nil {
		http.Error(w, "write the page: "+err.Error(), http.StatusInternalServerError)
	}
}
