package operator

import (
	"path/filepath"
	"strings"

	"github.com/pgmesh/pgmesh/conformance/gatewayapi/node"
)

// members begins the names of the namespaces whose applications are members of the mesh.
const members = "gateway-conformance-mesh"

// asGroup runs the agent with a group of its own, by which the kernel tells Envoy's connections from
// those of applications.
var asGroup = []string{"setpriv", "--regid", "1337", "--clear-groups", "--pdeathsig", "KILL"}

// Join runs an agent beside an application, which sends the application's connections through Envoy.
func (o *Operator) Join(j node.Joining) error {
	pod := j.Pod
	if !strings.HasPrefix(pod.Namespace, members) {
		return nil
	}
	var labels []string
	for name, value := range pod.Labels {
		labels = append(labels, name+"="+value)
	}
	run, err := o.start(j.Machine, filepath.Join(j.Folder, "agent"), asGroup, "--id", pod.Name+"."+pod.Namespace, "--namespace", pod.Namespace,
		"--labels", strings.Join(labels, ","), "--dns", "serve", "--resolv-conf", filepath.Join(j.Folder, "resolv.conf"), "--redirect", "--redirect-dns")
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sidecars = append(o.sidecars, run)
	return nil
}
