// Package node does what a Kubernetes cluster does to run applications: it makes Pods of Deployments,
// runs them as processes on machines of their own, and tells which of them are the endpoints of a
// Service. It has the programs of the suite's images, and runs no others.
package node

import (
	"net/netip"
	"path"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgmesh/pgmesh/conformance/gatewayapi/follow"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
)

// name is that of the one Node there is.
const name = "node"

// Node runs the Pods of a cluster.
type Node struct {
	// Wire is the switch that Pods are machines on. Address is the node's on it, where the API server
	// reaches the node, and Pods reach the cluster's resolver.
	Wire    *netns.Switch
	Address netip.Addr
	// Images are those that it has, by their names without registry and version: echo-basic.
	Images map[string]Image
	// Folder has the files and the logs of Pods.
	Folder string
	// Joins has a Pod whose program runs join the mesh. It may be nil.
	Joins func(Joining) error

	t      testing.TB
	client client.Client
	mu     sync.Mutex
	runs   map[types.NamespacedName]*running
}

// Image is what a container is made from.
type Image struct {
	// Program is what a container runs, and Commands are others that can be run in it, by their names.
	Program  string
	Commands map[string]string
	// Files are those of the image, by their paths in it.
	Files map[string]string
}

// Joining is a Pod that may join the mesh.
type Joining struct {
	Pod     *corev1.Pod
	Machine *netns.Namespace
	Folder  string
}

// Start has the node do its work for as long as the cluster is followed. End ends the programs.
func (n *Node) Start(t testing.TB, c *follow.Cluster) {
	t.Helper()
	n.t, n.client, n.runs = t, c, map[types.NamespacedName]*running{}
	n.serveNames(t)
	deployments, pods, services := c.Do("make the Pods of", n.deployment), c.Do("run the Pod", n.pod), c.Do("tell of the endpoints of", n.service)
	c.Watch(&appsv1.DeploymentList{}, func(d client.Object) { deployments.Add(key(d)) })
	c.Watch(&corev1.ServiceList{}, func(s client.Object) { services.Add(key(s)) })
	c.Watch(&corev1.PodList{}, func(pod client.Object) {
		pods.Add(key(pod))
		for _, s := range n.servicesOf(pod) {
			services.Add(s)
		}
	})
}

// image is that of a name: registry.k8s.io/gateway-api/echo-basic:v1.5.1. One that the node does not
// have is empty.
func (n *Node) image(name string) Image {
	name, _, _ = strings.Cut(path.Base(name), ":")
	return n.Images[name]
}
