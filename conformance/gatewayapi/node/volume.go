package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mount writes the volumes of a Pod into folders, and returns these by the names of the volumes.
func (n *Node) mount(ctx context.Context, pod *corev1.Pod, folder string) (mounts map[string]string, err error) {
	mounts = map[string]string{}
	for _, v := range pod.Spec.Volumes {
		content, items, err := n.content(ctx, pod.Namespace, v)
		if err != nil {
			return nil, fmt.Errorf("mount the volume %s: %w", v.Name, err)
		}
		mounts[v.Name] = filepath.Join(folder, "volume-"+v.Name)
		if err := write(mounts[v.Name], content, items); err != nil {
			return nil, err
		}
	}
	return mounts, nil
}

// content is what a volume has: of a Secret, or of a ConfigMap.
func (n *Node) content(ctx context.Context, namespace string, v corev1.Volume) (content map[string][]byte, items []corev1.KeyToPath, err error) {
	switch {
	case v.Secret != nil:
		var s corev1.Secret
		err := n.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v.Secret.SecretName}, &s)
		return s.Data, v.Secret.Items, err
	case v.ConfigMap != nil:
		var c corev1.ConfigMap
		err := n.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: v.ConfigMap.Name}, &c)
		content = map[string][]byte{}
		for file, text := range c.Data {
			content[file] = []byte(text)
		}
		return content, v.ConfigMap.Items, err
	}
	return nil, nil, fmt.Errorf("there are Secrets and ConfigMaps alone, not %v", v.VolumeSource)
}

// write writes files, of which items choose some and name them otherwise.
func write(folder string, content map[string][]byte, items []corev1.KeyToPath) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if items == nil {
		for key := range content {
			items = append(items, corev1.KeyToPath{Key: key, Path: key})
		}
	}
	for _, item := range items {
		if err := os.WriteFile(filepath.Join(folder, item.Path), content[item.Key], 0o644); err != nil {
			return err
		}
	}
	return nil
}
