package rollout

import "time"

// Refusal is a resource of Envoy's that a proxy refuses.
type Refusal struct {
	TypeURL, Resource string
	Reason            string // Envoy's words
	Since             time.Time
	Sources           []Source // what it was made from, as far as is known
}

// Source is a resource of the mesh that a resource of Envoy's was made from.
type Source struct {
	Resource

	Path string `json:"path,omitempty"` // the field that made it; "" if it is not known which
}

// Resource names a resource of the mesh.
type Resource struct {
	Group     string `json:"api_group"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// bounded is a resource whose texts Postgres accepts.
func (r Resource) bounded() Resource {
	return Resource{text(r.Group), text(r.Kind), text(r.Namespace), text(r.Name)}
}

type refusalRow struct {
	TypeURL  string    `json:"type_url"`
	Resource string    `json:"resource"`
	Reason   string    `json:"reason"`
	Since    time.Time `json:"since"`
	Sources  []Source  `json:"sources"`
}

func refusalRows(all []Refusal) []refusalRow {
	rows := make([]refusalRow, len(all))
	for i, r := range all {
		rows[i] = refusalRow{text(r.TypeURL), text(r.Resource), words(r.Reason), past(r.Since), make([]Source, len(r.Sources))}
		for j, source := range r.Sources {
			rows[i].Sources[j] = Source{source.bounded(), text(source.Path)}
		}
	}
	return rows
}
