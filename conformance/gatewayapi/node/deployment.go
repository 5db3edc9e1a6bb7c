package node

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// label has the name of the Deployment that a Pod is of.
const label = "deployment"

// deployment makes the Pods of a Deployment, and takes those away that it has no more.
func (n *Node) deployment(ctx context.Context, of types.NamespacedName) error {
	var d appsv1.Deployment
	wanted := map[string]bool{}
	switch err := n.client.Get(ctx, of, &d); {
	case client.IgnoreNotFound(err) != nil:
		return err
	case err == nil:
		for i := range *d.Spec.Replicas {
			wanted[fmt.Sprintf("%s-pod-%d", d.Name, i)] = true // two parts follow the name, as in a cluster, where the suite takes them off
		}
	}
	var there corev1.PodList
	if err := n.client.List(ctx, &there, client.InNamespace(of.Namespace), client.MatchingLabels{label: of.Name}); err != nil {
		return err
	}
	for i := range there.Items {
		if pod := &there.Items[i]; wanted[pod.Name] && metav1.IsControlledBy(pod, &d) {
			delete(wanted, pod.Name)
		} else if err := n.client.Delete(ctx, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	for name := range wanted {
		if err := n.create(ctx, &d, name); err != nil {
			return err
		}
	}
	return nil
}

// create makes a Pod of a Deployment.
func (n *Node) create(ctx context.Context, d *appsv1.Deployment, of string) error {
	pod := &corev1.Pod{ObjectMeta: *d.Spec.Template.ObjectMeta.DeepCopy(), Spec: *d.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name, pod.Spec.NodeName = d.Namespace, of, name
	pod.Labels[label] = d.Name
	if err := controllerutil.SetControllerReference(d, pod, n.client.Scheme()); err != nil {
		return err
	}
	return n.client.Create(ctx, pod)
}

// key is what an object is known by.
func key(o client.Object) types.NamespacedName { return client.ObjectKeyFromObject(o) }
