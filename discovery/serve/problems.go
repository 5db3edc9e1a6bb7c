package serve

import (
	"net/http"

	"github.com/pgmesh/pgmesh/discovery/push"
	"github.com/pgmesh/pgmesh/internal/monitor"
)

// shownProblem is a problem on the page. Its fields are named after the columns of mesh.problems.
type shownProblem struct {
	Code      push.Code `json:"code"`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Path      string    `json:"path"`
	Message   string    `json:"message"`
	At        string    `json:"at,omitempty"`
}

// problemsPage shows what is wrong at the moment.
func problemsPage(engine *push.Engine) monitor.Page {
	return monitor.Page{Path: "/problems", About: "Lists what discovery finds wrong at the moment.", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		problems, ok := engine.Problems()
		if !ok {
			http.Error(w, "there is no configuration yet: /readyz says what is missing", http.StatusServiceUnavailable)
			return
		}
		shown := make([]shownProblem, len(problems))
		for i, p := range problems {
			shown[i] = shownProblem{p.Code, p.Of.Kind.Name, p.Of.Namespace, p.Of.Name, p.Path, p.Reason, p.At}
		}
		monitor.WriteJSON(w, shown)
	})}
}
