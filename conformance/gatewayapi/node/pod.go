package node

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pgmesh/pgmesh/internal/kit/process"
	"github.com/pgmesh/pgmesh/internal/testbench/netns"
)

// running is a Pod that runs.
type running struct {
	of       types.UID
	machine  *netns.Namespace
	folder   string
	commands map[string]string // that can be run beside
	all      []*process.Process
}

// grace is how long a program may take to end.
const grace = time.Second

// pod runs a Pod, or ends it when it is there no more.
func (n *Node) pod(ctx context.Context, of types.NamespacedName) error {
	var pod corev1.Pod
	err := n.client.Get(ctx, of, &pod)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	gone := err != nil || pod.DeletionTimestamp != nil
	if r := n.run(of); r != nil && (gone || r.of != pod.UID) {
		n.end(of, r)
	}
	switch {
	case err == nil && gone:
		return client.IgnoreNotFound(n.client.Delete(ctx, &pod, client.GracePeriodSeconds(0)))
	case gone || pod.Spec.NodeName != name || pod.Status.Phase == corev1.PodRunning:
		return nil
	}
	r := n.run(of)
	if r == nil {
		if r, err = n.begin(ctx, &pod); err != nil {
			return fmt.Errorf("run the Pod %s: %w", of, err)
		}
	}
	return n.ready(ctx, &pod, r)
}

func (n *Node) run(of types.NamespacedName) *running {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.runs[of]
}

func (n *Node) end(of types.NamespacedName, r *running) {
	n.mu.Lock()
	delete(n.runs, of)
	n.mu.Unlock()
	for _, p := range slices.Backward(r.all) {
		p.Stop(grace)
	}
}

// End ends all programs.
func (n *Node) End() {
	n.mu.Lock()
	all := n.runs
	n.runs = map[types.NamespacedName]*running{}
	n.mu.Unlock()
	for _, r := range all {
		for _, p := range r.all {
			p.Kill()
		}
	}
}

// begin starts the programs of a Pod on a machine of its own, and waits until they listen.
func (n *Node) begin(ctx context.Context, pod *corev1.Pod) (*running, error) {
	r := &running{of: pod.UID, commands: map[string]string{}, folder: filepath.Join(n.Folder, pod.Namespace, pod.Name)}
	if err := os.MkdirAll(r.folder, 0o755); err != nil {
		return nil, err
	}
	mounts, err := n.mount(ctx, pod, r.folder)
	if err != nil {
		return nil, err
	}
	r.machine = n.Wire.Machine(n.t)
	if err := r.resolve(pod.Namespace, n.Address); err != nil {
		return nil, err
	}
	for i := range pod.Spec.Containers {
		if err := n.start(pod, &pod.Spec.Containers[i], mounts, r); err != nil {
			return nil, err
		}
	}
	if n.Joins != nil {
		if err := n.Joins(Joining{Pod: pod, Machine: r.machine, Folder: r.folder}); err != nil {
			return nil, fmt.Errorf("join the mesh: %w", err)
		}
	}
	n.mu.Lock()
	n.runs[key(pod)] = r
	n.mu.Unlock()
	return r, nil
}

// start starts the program of a container.
func (n *Node) start(pod *corev1.Pod, c *corev1.Container, mounts map[string]string, r *running) error {
	image := n.image(c.Image)
	if image.Program == "" {
		return fmt.Errorf("the node has no image %s", c.Image)
	}
	maps.Copy(r.commands, image.Commands)
	log, err := r.createLog(c.Name)
	if err != nil {
		return err
	}
	cmd := r.command(append([]string{image.Program}, image.arguments(c.Args)...)...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environment(pod, c, mounts), log, log
	p, err := process.Start(cmd)
	if err != nil {
		return err
	}
	r.all = append(r.all, p)
	go func() {
		<-p.Done()
		_ = log.file.Close()
	}()
	return listens(p)
}

// arguments are those of a container, with files of the image where they are: --crt=/cert.crt.
func (i Image) arguments(of []string) []string {
	out := make([]string, len(of))
	for n, argument := range of {
		flag, value, _ := strings.Cut(argument, "=")
		if file := i.Files[value]; file != "" {
			argument = flag + "=" + file
		}
		out[n] = argument
	}
	return out
}

// environment is that of a container, whose paths are where its volumes are mounted.
func environment(pod *corev1.Pod, c *corev1.Container, mounts map[string]string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOSTNAME=" + pod.Name}
	for _, e := range c.Env {
		value := e.Value
		if from := e.ValueFrom; from != nil && from.FieldRef != nil {
			value = map[string]string{"metadata.name": pod.Name, "metadata.namespace": pod.Namespace}[from.FieldRef.FieldPath]
		}
		env = append(env, e.Name+"="+replaced(value, c, mounts))
	}
	return env
}

// replaced is a path of a container as one of this machine: containers have no file system of their
// own here.
func replaced(value string, c *corev1.Container, mounts map[string]string) string {
	for _, m := range c.VolumeMounts {
		if rest, within := strings.CutPrefix(value, m.MountPath+"/"); within && mounts[m.Name] != "" {
			return filepath.Join(mounts[m.Name], rest)
		}
	}
	return value
}

// ready tells that a Pod runs.
func (n *Node) ready(ctx context.Context, pod *corev1.Pod, r *running) error {
	before := pod.DeepCopy()
	ip, now := r.machine.IPv4.String(), metav1.Now()
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, HostIP: n.Address.String(), StartTime: &now}
	for _, condition := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	return client.IgnoreNotFound(n.client.Status().Patch(ctx, pod, client.MergeFrom(before)))
}
