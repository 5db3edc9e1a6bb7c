package rollout

import "encoding/json"

// Problem is something wrong at a resource, as a discovery sees it.
type Problem struct {
	Resource

	Path    string // of the field; empty for the resource as a whole
	Code    string
	Message string
}

type problemRow struct {
	Resource

	Path    string `json:"path"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// problemRows returns problems as the database takes them; nil if they are as before.
func problemRows(all *[]Problem) ([]byte, error) {
	if all == nil {
		return nil, nil
	}
	rows := make([]problemRow, len(*all))
	for i, p := range *all {
		rows[i] = problemRow{p.bounded(), text(p.Path), text(p.Code), words(p.Message)}
	}
	return json.Marshal(rows)
}
