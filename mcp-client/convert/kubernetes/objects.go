package kubernetes

import (
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// The objects of Kubernetes, with the fields that are read.

// key names an object of a namespace.
type key struct{ namespace, name string }

// metadata is that of an object.
type metadata struct {
	Namespace   string            `yaml:"namespace"`
	Name        string            `yaml:"name"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func (m *metadata) key() key { return key{m.Namespace, m.Name} }

// service is a Service.
type service struct {
	Metadata metadata `yaml:"metadata"`
	Spec     struct {
		Type                  string            `yaml:"type"`
		ClusterIP             string            `yaml:"clusterIP"`
		ClusterIPs            []string          `yaml:"clusterIPs"`
		IPFamilies            []string          `yaml:"ipFamilies"`
		ExternalName          string            `yaml:"externalName"`
		ExternalIPs           []string          `yaml:"externalIPs"`
		TrafficDistribution   string            `yaml:"trafficDistribution"`
		InternalTrafficPolicy string            `yaml:"internalTrafficPolicy"`
		SessionAffinity       string            `yaml:"sessionAffinity"`
		Ports                 []servicePort     `yaml:"ports"`
		Selector              map[string]string `yaml:"selector"`
	} `yaml:"spec"`

	at report.Place
}

type servicePort struct {
	Name        string     `yaml:"name"`
	Port        uint32     `yaml:"port"`
	Protocol    string     `yaml:"protocol"`
	AppProtocol string     `yaml:"appProtocol"`
	TargetPort  targetPort `yaml:"targetPort"`
}

// targetPort is a port by its number, or by its name in a Pod.
type targetPort struct {
	number uint32
	name   string
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (p *targetPort) UnmarshalYAML(node *yaml.Node) error {
	if number, err := strconv.ParseUint(node.Value, 10, 16); err == nil {
		p.number = uint32(number)
	} else {
		p.name = node.Value
	}
	return nil
}

// slice is an EndpointSlice.
type slice struct {
	Metadata    metadata   `yaml:"metadata"`
	AddressType string     `yaml:"addressType"`
	Endpoints   []endpoint `yaml:"endpoints"`
	Ports       []struct {
		Name string `yaml:"name"`
		Port uint32 `yaml:"port"`
	} `yaml:"ports"`
}

type endpoint struct {
	Addresses  []string `yaml:"addresses"`
	Conditions struct {
		Ready       *bool `yaml:"ready"`
		Terminating bool  `yaml:"terminating"`
	} `yaml:"conditions"`
	Hostname  string `yaml:"hostname"`
	NodeName  string `yaml:"nodeName"`
	Zone      string `yaml:"zone"`
	TargetRef struct {
		Kind string `yaml:"kind"`
		Name string `yaml:"name"`
	} `yaml:"targetRef"`
}

// pod is a Pod.
type pod struct {
	Metadata metadata `yaml:"metadata"`
	Spec     struct {
		ServiceAccount string `yaml:"serviceAccountName"`
		NodeName       string `yaml:"nodeName"`
		Containers     []struct {
			Ports []struct {
				Name string `yaml:"name"`
				Port uint32 `yaml:"containerPort"`
			} `yaml:"ports"`
		} `yaml:"containers"`
	} `yaml:"spec"`
	Status struct {
		Phase      string `yaml:"phase"`
		PodIP      string `yaml:"podIP"`
		Conditions []struct {
			Type   string `yaml:"type"`
			Status string `yaml:"status"`
		} `yaml:"conditions"`
	} `yaml:"status"`
}

// node is a Node.
type node struct {
	Metadata metadata `yaml:"metadata"`
}

// configMap is a ConfigMap.
type configMap struct {
	Metadata metadata          `yaml:"metadata"`
	Data     map[string]string `yaml:"data"`

	at report.Place
}
