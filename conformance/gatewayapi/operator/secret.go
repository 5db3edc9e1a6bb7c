package operator

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What says on a Secret which gateways may have it.
const (
	accountLabel       = "mesh.pgmesh.io/service-account"
	accountsAnnotation = "mesh.pgmesh.io/service-accounts"
)

// secret says of a certificate that all gateways may have it.
func (o *Operator) secret(ctx context.Context, of types.NamespacedName) error {
	var s corev1.Secret
	if err := o.client.Get(ctx, of, &s); err != nil {
		return client.IgnoreNotFound(err)
	}
	if s.Type != corev1.SecretTypeTLS || s.Labels[accountLabel] != "" {
		return nil
	}
	before := s.DeepCopy()
	s.Labels, s.Annotations = with(s.Labels, accountLabel, "gateway"), with(s.Annotations, accountsAnnotation, "*")
	return client.IgnoreNotFound(o.client.Patch(ctx, &s, client.MergeFrom(before)))
}

func with(all map[string]string, name, value string) map[string]string {
	if all == nil {
		all = map[string]string{}
	}
	all[name] = value
	return all
}
