package kubernetes

import (
	"encoding/json"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// Where Istio's agent probes a machine, an annotation of its WorkloadEntry says so, and a condition how
// it is.
const (
	workloadEntry    = "WorkloadEntry"
	probedAnnotation = "proxy.istio.io/health-checks-enabled"
	healthyCondition = "Healthy"
)

// health is how the machine of a WorkloadEntry is, as the mesh's own entries say it; "" if it is well,
// or nobody looks.
func (o *configObject) health() string {
	if !strings.EqualFold(o.Metadata.Annotations[probedAnnotation], "true") {
		return ""
	}
	c, told := o.Status.condition(healthyCondition)
	switch {
	case !told:
		return kinds.HealthUnknown
	case c.Status == "True":
		return ""
	case c.Message == "":
		return kinds.HealthUnhealthy
	}
	return kinds.HealthUnhealthy + ": " + c.Message
}

// condition returns the condition of a type, if there is one that can be read.
func (s statusObject) condition(sort string) (c condition, told bool) {
	for _, raw := range s.Conditions {
		if json.Unmarshal(raw, &c) == nil && c.Type == sort {
			return c, true
		}
	}
	return condition{}, false
}
