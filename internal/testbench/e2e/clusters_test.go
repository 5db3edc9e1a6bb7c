package e2e

import (
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/internal/testbench/kubetest"
	"github.com/pgmesh/pgmesh/kinds"
)

// clustersPage is the page that tests of clusters follow, in two parts.
const clustersPage = "../../../docs/clusters.md"

// clusterAPI is what the page asks for, in clusters and on machines alike.
const clusterAPI = "api.payments.svc.cluster.local"

// inClusters is a mesh of which some machines are Pods. The test does what controllers and kubelets do
// in a cluster.
type inClusters struct {
	*networks

	clusters map[string]*kubetest.Cluster
	pods     map[string]*podOfPage
}

// podOfPage is a Pod that the page has.
type podOfPage struct {
	cluster                  string
	namespace, name, account string
	labels                   map[string]string
	agent                    []string // how its mesh-agent is run
}

// partOfPage is what stands on the page under a heading.
func partOfPage(t *testing.T, heading string) string {
	t.Helper()
	_, part, found := strings.Cut(textOf(t, clustersPage), "\n## "+heading+"\n")
	require.True(t, found, heading)
	part, _, _ = strings.Cut(part, "\n## ")
	return part
}

var registryOfPage = regexp.MustCompile(`--registry '(kubernetes://(\S+)\?name=(\w+)\S*)'`)

// newInClusters runs a mesh that reads clusters as the page has it.
func newInClusters(t *testing.T, part string, groups map[string]string) *inClusters {
	t.Helper()
	clusters := map[string]*kubetest.Cluster{}
	var flags []string
	for _, found := range registryOfPage.FindAllStringSubmatch(part, -1) {
		c := kubetest.Start(t)
		c.InstallIstio()
		for _, namespace := range []string{kinds.MeshNamespace, "payments", "shop"} {
			c.Namespace(namespace)
		}
		clusters[found[3]] = c
		flags = append(flags, "--registry", strings.Replace(found[1], found[2], c.Kubeconfig(c.Address, c.Admin()), 1))
	}
	require.NotEmpty(t, clusters)
	n := &inClusters{networks: newNetworks(t, clusterAPI, groups, flags...), clusters: clusters, pods: map[string]*podOfPage{}}
	n.startsAgain = true // a Pod may ask before discovery knows the rule by which it joins
	for name, c := range clusters {
		require.NoError(t, os.WriteFile(filepath.Join(n.programs, name+"-keys.json"), c.Get("/openid/v1/jwks"), 0o600))
	}
	return n
}

// apply makes a cluster have what stands in the blocks of the page with one of these words.
func (n *inClusters) apply(cluster, part string, words ...string) {
	n.t.Helper()
	applied := 0
	for _, block := range regexp.MustCompile("(?ms)^```yaml ([^\n]+)\n(.*?)^```$").FindAllStringSubmatch(part, -1) {
		if !slices.Contains(words, block[1]) {
			continue
		}
		for decoder := yaml.NewDecoder(strings.NewReader(block[2])); ; applied++ {
			var o kubetest.Object
			err := decoder.Decode(&o)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(n.t, err)
			n.applyObject(cluster, o)
		}
	}
	require.NotZero(n.t, applied)
	n.control(cluster)
}

func (n *inClusters) applyObject(cluster string, o kubetest.Object) {
	n.t.Helper()
	meta := o["metadata"].(kubetest.Object)
	path := "/apis/" + o["apiVersion"].(string)
	if o["apiVersion"] == "v1" {
		path = "/api/v1"
	}
	if namespace, namespaced := meta["namespace"].(string); namespaced {
		path += "/namespaces/" + namespace
	}
	kind := strings.ToLower(o["kind"].(string))
	n.clusters[cluster].Apply(path+"/"+kind+"s/"+meta["name"].(string), o)
	if kind == "pod" {
		n.takePod(cluster, o)
	}
}

func (n *inClusters) takePod(cluster string, o kubetest.Object) {
	n.t.Helper()
	text, err := yaml.Marshal(o)
	require.NoError(n.t, err)
	var pod struct {
		Metadata struct {
			Namespace, Name string
			Labels          map[string]string
		}
		Spec struct {
			Account    string `yaml:"serviceAccountName"`
			Containers []struct {
				Name string
				Args []string
			}
		}
	}
	require.NoError(n.t, yaml.Unmarshal(text, &pod))
	p := &podOfPage{cluster: cluster, namespace: pod.Metadata.Namespace, name: pod.Metadata.Name, account: pod.Spec.Account, labels: pod.Metadata.Labels}
	for _, container := range pod.Spec.Containers {
		if container.Name == "mesh-agent" {
			p.agent = container.Args
		}
	}
	require.NotEmpty(n.t, p.agent, "the Pod %s has no mesh-agent", p.name)
	require.NotNil(n.t, n.machines[p.name], "the Pod %s runs nowhere", p.name)
	n.pods[p.name] = p
}

// control does what the controllers of a cluster do: Services have their Pods for endpoints, and a
// load balancer has the address of the gateway.
func (n *inClusters) control(cluster string) {
	n.t.Helper()
	c := n.clusters[cluster]
	for of, labels := range map[string]map[string]string{"payments/api": {"app": "api"}, "istio-system/istio-eastwestgateway": {"istio": "eastwestgateway"}} {
		namespace, service, _ := strings.Cut(of, "/")
		slice := kubetest.Slice{Namespace: namespace, Name: service + "-1", Service: service, Port: 8080}
		for _, p := range n.pods {
			if p.cluster == cluster && p.namespace == namespace && kinds.LabelsWithin(labels, p.labels) {
				slice.Endpoints = append(slice.Endpoints, kubetest.Endpoint{Address: n.machines[p.name].IPv4.String(), Pod: p.name, Node: "node-" + cluster})
			}
		}
		c.ApplySlice(slice)
	}
	n.balance(cluster, n.ways[cluster].IPv4)
}

// balance gives the gateway of a cluster the address of a load balancer.
func (n *inClusters) balance(cluster string, at netip.Addr) {
	n.t.Helper()
	n.clusters[cluster].ApplyStatus(kubetest.ServicePath(kinds.MeshNamespace, "istio-eastwestgateway"), kubetest.Object{
		"apiVersion": "v1", "kind": "Service", "metadata": kubetest.Object{"name": "istio-eastwestgateway"},
		"status": kubetest.Object{"loadBalancer": kubetest.Object{"ingress": []kubetest.Object{{"ip": at.String()}}}},
	})
}

// runPods does what kubelets do: each Pod runs, with the files that it is given.
func (n *inClusters) runPods() {
	n.t.Helper()
	for _, name := range n.sortedPods() {
		p := n.pods[name]
		token := filepath.Join(n.programs, name+".token")
		require.NoError(n.t, os.WriteFile(token, []byte(n.clusters[p.cluster].Token(p.namespace, p.account, "pgmesh")), 0o600))
		flags := make([]string, 0, len(p.agent))
		require.Equal(n.t, "run", p.agent[0])
		for _, arg := range p.agent[1:] {
			flags = append(flags, strings.NewReplacer("mesh.example:15012", mine, "/var/run/secrets/pgmesh/token", token, "/etc/pgmesh/mesh.pem", n.Roots()).Replace(arg))
		}
		n.run(name, flags...)
	}
}

func (n *inClusters) sortedPods() []string {
	names := make([]string, 0, len(n.pods))
	for name := range n.pods {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// inTheWest is the page with west for east.
func inTheWest(page string) string {
	const gateway = "eastwestgateway"
	parts := strings.Split(page, gateway)
	for i := range parts {
		parts[i] = strings.ReplaceAll(parts[i], "east", "west")
	}
	return strings.Join(parts, gateway)
}

// A service has a Pod in a cluster and a machine elsewhere, and both are called from both sides.
func TestThePageOfAClusterAndMachines(t *testing.T) { //nolint:paralleltest // it is, after what it measures
	part := partOfPage(t, "A cluster and machines")
	n := newInClusters(t, part, map[string]string{
		"gateway-prod": "istio-system/eastwestgateway", "api-prod": "payments/api", "web": "shop/web",
		"gateway-site": "istio-system/east-west", "api-site": "payments/api", "till": "shop/till",
	})
	n.network("prod", "gateway-prod", "api-prod", "web")
	n.network("site", "gateway-site", "api-site", "till")
	n.leadOut()
	n.apply("prod", part, "prod")
	prepared, rest, found := strings.Cut(part, "\n### The machines\n")
	require.True(t, found)
	n.follow(prepared)
	n.runPods()
	said := n.follow("\n" + rest)
	require.Regexp(t, `(?s)10\.77\.0\.4:8080 +HEALTHY.* 0 .*10\.99\.0\.3:15443 +HEALTHY.* 1 `, said)

	n.fallBack(
		loss{"as the page leaves it", "web", "api-prod", func() {}},
		loss{"as the page leaves it", "till", "api-site", func() {}},
		loss{"the Pod is cut off", "web", "api-site", n.machines["api-prod"].Cable.Cut},
		loss{"and is back", "web", "api-prod", n.machines["api-prod"].Cable.Mend},
		loss{"the machine is cut off", "till", "api-prod", n.machines["api-site"].Cable.Cut},
		loss{"and is back", "till", "api-site", n.machines["api-site"].Cable.Mend},
		loss{"the way to the machines is cut", "web", "api-prod", n.ways["site"].Cut},
		loss{"and is back", "web", "api-prod", n.ways["site"].Mend},
		loss{"the API server is away, and then the Pod", "web", "api-site", func() {
			n.clusters["prod"].Kill()
			n.machines["api-prod"].Cable.Cut()
		}},
	)
}

// Two clusters have a service together. Requests stay in their region while somebody is there.
func TestThePageOfTwoClusters(t *testing.T) { //nolint:paralleltest // it measures
	part := partOfPage(t, "Two clusters")
	n := newInClusters(t, part, map[string]string{
		"gateway-east": "istio-system/eastwestgateway", "api-east": "payments/api-east", "web": "shop/web",
		"gateway-west": "istio-system/eastwestgateway", "api-west": "payments/api-west",
	})
	n.network("east", "gateway-east", "api-east", "web")
	n.network("west", "gateway-west", "api-west")
	n.leadOut()
	n.apply("east", part, "east", "only east")
	n.apply("west", inTheWest(part), "west")
	prepared, rest, found := strings.Cut(part, "\nRequests of `web` are answered")
	require.True(t, found)
	n.follow(prepared)
	n.runPods()
	said := n.follow(rest)
	require.Regexp(t, `(?s)10\.77\.0\.4:8080 +HEALTHY.* 0 .*10\.99\.0\.3:15443 +HEALTHY.* 1 `, said)

	n.fallBack(
		loss{"as the page leaves it", "web", "api-east", func() {}},
		loss{"the Pod in the east is cut off", "web", "api-west", n.machines["api-east"].Cable.Cut},
		loss{"and is back", "web", "api-east", n.machines["api-east"].Cable.Mend},
		loss{"the way to the west is cut", "web", "api-east", n.ways["west"].Cut},
		loss{"and is back", "web", "api-east", n.ways["west"].Mend},
	)
}
