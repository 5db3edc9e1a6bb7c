package issue

import (
	istio "istio.io/api/security/v1alpha1"

	"github.com/pgmesh/pgmesh/internal/standardmetrics"
)

// aliasOf returns what a machine asks to be called in metrics, or "". Its namespace is that of its
// identity, whatever it asks for. A machine without a readable one is called by its identity: it
// is not refused a certificate for that.
func aliasOf(r *istio.IstioCertificateRequest, namespace string) string {
	asked := r.GetMetadata().GetFields()[standardmetrics.AliasKey].GetStringValue()
	w, ok := standardmetrics.ParseWorkload(asked)
	if !ok {
		return ""
	}
	w.Namespace = namespace
	return w.Encode()
}
