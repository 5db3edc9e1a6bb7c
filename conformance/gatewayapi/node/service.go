package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// service tells of the endpoints of a Service: the ready Pods that it selects. One without a selector
// has those that somebody else tells of.
func (n *Node) service(ctx context.Context, of types.NamespacedName) error {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name + "-selected"}}
	var s corev1.Service
	switch err := n.client.Get(ctx, of, &s); {
	case client.IgnoreNotFound(err) != nil:
		return err
	case err != nil || len(s.Spec.Selector) == 0:
		return client.IgnoreNotFound(n.client.Delete(ctx, slice))
	}
	var pods corev1.PodList
	if err := n.client.List(ctx, &pods, client.InNamespace(s.Namespace), client.MatchingLabels(s.Spec.Selector)); err != nil {
		return err
	}
	_, err := controllerutil.CreateOrUpdate(ctx, n.client, slice, func() error {
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: s.Name}
		slice.AddressType, slice.Ports, slice.Endpoints = discoveryv1.AddressTypeIPv4, portsOf(&s), endpoints(&pods)
		return controllerutil.SetControllerReference(&s, slice, n.client.Scheme())
	})
	return err
}

func portsOf(s *corev1.Service) (out []discoveryv1.EndpointPort) {
	for _, p := range s.Spec.Ports {
		to := p.TargetPort.IntVal
		if to == 0 {
			to = p.Port
		}
		out = append(out, discoveryv1.EndpointPort{Name: &p.Name, Port: &to, Protocol: &p.Protocol, AppProtocol: p.AppProtocol})
	}
	return out
}

func endpoints(pods *corev1.PodList) (out []discoveryv1.Endpoint) {
	yes, no := true, false
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.PodIP == "" || pod.DeletionTimestamp != nil {
			continue
		}
		out = append(out, discoveryv1.Endpoint{
			Addresses: []string{pod.Status.PodIP}, NodeName: &pod.Spec.NodeName,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		})
	}
	return out
}

// servicesOf are the Services that select a Pod.
func (n *Node) servicesOf(pod client.Object) (out []types.NamespacedName) {
	var all corev1.ServiceList
	if err := n.client.List(n.t.Context(), &all, client.InNamespace(pod.GetNamespace())); err != nil {
		return nil
	}
	for i := range all.Items {
		s := &all.Items[i]
		if len(s.Spec.Selector) > 0 && labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.GetLabels())) {
			out = append(out, key(s))
		}
	}
	return out
}
