package metrics

import (
	"regexp"
	"strings"

	statsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/access_loggers/stats/v3"

	"github.com/pgmesh/pgmesh/internal/standardmetrics"
)

// stat is a metric with its labels, as overrides have them.
func (m Metrics) stat(metric, name string, s standardmetrics.Series) *statsv3.Config_Stat {
	stat := &statsv3.Config_Stat{Name: name, Tags: []*statsv3.Config_Tag{{Name: standardmetrics.Tag, ValueFormat: s.Format()}}}
	var without []string
	for _, t := range m.overrides[metric].Tags {
		if !labelName.MatchString(t.Name) || reserved[t.Name] {
			continue // Prometheus could not read the page, or the page not the series
		}
		if t.Remove {
			without = append(without, t.Name)
		} else if text, ok := evaluated(t.Value); ok {
			stat.Tags = append(stat.Tags, &statsv3.Config_Tag{Name: t.Name, ValueFormat: text})
		}
	}
	if len(without) > 0 {
		stat.Tags = append(stat.Tags, &statsv3.Config_Tag{Name: standardmetrics.Without, ValueFormat: strings.Join(without, ",")})
	}
	return stat
}

// labelName are the names that labels of Prometheus have.
var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// reserved names are those of the page itself.
var reserved = map[string]bool{standardmetrics.Tag: true, standardmetrics.Without: true, standardmetrics.Messages: true, "le": true}

// node is Istio's name for the proxy's node in expressions. A stock Envoy has it elsewhere.
var node = regexp.MustCompile(`(^|[^\w.'"])node\.`)

// evaluated is the format of an expression of CEL. A format cannot have an expression with a % in
// it, for which there is no other writing.
func evaluated(expression string) (format string, ok bool) {
	if expression == "" || strings.Contains(expression, "%") {
		return "", false
	}
	return "%CEL(" + node.ReplaceAllString(expression, "${1}xds.node.") + ")%", true
}
