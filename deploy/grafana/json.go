package grafana

import "encoding/json"

// Grafana's own measures: a row is 24 units wide.
const (
	width  = 24
	height = 8
)

type object = map[string]any

// JSON is a dashboard as Grafana imports it.
func (d Dashboard) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(object{
		"uid": "pgmesh-" + d.File[:len(d.File)-len(".json")], "title": d.Title, "description": d.About, "tags": []string{"pgmesh"},
		"schemaVersion": 39, "editable": true, "graphTooltip": 1, "refresh": "10s", "time": object{"from": "now-30m", "to": "now"},
		"templating": object{"list": d.variables()}, "panels": d.panels(),
	}, "", "  ")
	return append(text, '\n'), err
}

func (d Dashboard) variables() []object {
	all := []object{{"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}}
	for _, c := range d.Choices {
		all = append(all, object{
			"name": c.Name, "type": "query", "datasource": source, "query": "label_values(" + c.Metric + ", " + c.Label + ")",
			"includeAll": true, "allValue": ".*", "multi": true, "refresh": 2, "sort": 1, "current": object{"text": "All", "value": "$__all"},
		})
	}
	return all
}

var source = object{"type": "prometheus", "uid": "${datasource}"}

func (d Dashboard) panels() []object {
	var all []object
	y := 0
	for _, row := range d.Rows {
		all = append(all, object{"id": len(all) + 1, "type": "row", "title": row.Title, "gridPos": object{"x": 0, "y": y, "w": width, "h": 1}})
		y++
		w := width / len(row.Panels)
		for i, p := range row.Panels {
			all = append(all, p.object(len(all)+1, object{"x": i * w, "y": y, "w": w, "h": height}))
		}
		y += height
	}
	return all
}

func (p Panel) object(id int, place object) object {
	targets := make([]object, len(p.Queries))
	for i, q := range p.Queries {
		targets[i] = object{"refId": string(rune('A' + i)), "datasource": source, "expr": q.Expression, "legendFormat": q.Legend}
	}
	return object{
		"id": id, "type": "timeseries", "title": p.Title, "description": p.About, "datasource": source, "gridPos": place, "targets": targets,
		"fieldConfig": object{"defaults": object{"unit": p.Unit, "min": 0, "custom": object{"fillOpacity": 10}}, "overrides": []object{}},
		"options":     object{"legend": object{"displayMode": "list", "placement": "bottom"}, "tooltip": object{"mode": "multi", "sort": "desc"}},
	}
}
