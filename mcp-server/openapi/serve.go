package openapi

import (
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/jsonschema"
)

// documentPath is where the document is served.
const documentPath = "/openapi.json"

var document, files = sync.OnceValues(Document), sync.OnceValue(jsonschema.Files)

// Serves reports whether a path is one of Handler's.
func Serves(path string) bool {
	return path == documentPath || strings.HasPrefix(path, "/"+Schemas)
}

// Handler serves the document, and the schemas of the kinds, to everybody: nothing of a mesh is in
// them. Editors may read them from pages of other sites.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			http.Error(w, "a description is for reading", http.StatusMethodNotAllowed)
			return
		}
		text, kind, err := served(r.URL.Path)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Access-Control-Allow-Origin", "*")
		_, _ = w.Write(text) //nolint:gosec // it is JSON, and says so; whoever asked may be gone
	})
}

func served(path string) (text []byte, contentType string, err error) {
	if path == documentPath {
		text, err = document()
		return text, "application/vnd.oai.openapi+json;version=3.1", err
	}
	const schema = "application/schema+json"
	path = strings.TrimPrefix(path, "/"+Schemas)
	if text, is := files()[path]; is {
		return text, schema, nil
	}
	name, is := strings.CutSuffix(path, ".json")
	kind, err := kinds.ByName(name)
	if !is || err != nil {
		return nil, "", fmt.Errorf("there is no schema %s: write the name of a kind as in /schemas/virtualservice.json, or /schemas/%s for all", path, jsonschema.AllPath)
	}
	return jsonschema.Of(kind), schema, nil
}
