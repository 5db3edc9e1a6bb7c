package kubernetes

import (
	"slices"
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

// condition is one of an object's status.
type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

// health is how the machine of a WorkloadEntry is, as the mesh's own entries say it; "" if it is well,
// or nobody looks.
func (o *configObject) health() string {
	if !strings.EqualFold(o.Metadata.Annotations[probedAnnotation], "true") {
		return ""
	}
	i := slices.IndexFunc(o.Status.Conditions, func(c condition) bool { return c.Type == healthyCondition })
	switch {
	case i < 0:
		return kinds.HealthUnknown
	case o.Status.Conditions[i].Status == "True":
		return ""
	case o.Status.Conditions[i].Message == "":
		return kinds.HealthUnhealthy
	}
	return kinds.HealthUnhealthy + ": " + o.Status.Conditions[i].Message
}
