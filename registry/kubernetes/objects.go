package kubernetes

import (
	"encoding/json"
	"time"
	"unique"
)

// key names an object of one list.
type key struct{ namespace, name string }

func (k key) String() string { return k.namespace + "/" + k.name }

// The objects of Kubernetes, with the fields that are read. What is not here is never decoded. A field
// of an object that is also read from protobuf is in protobuf.go, too.

// What is read of labels and annotations where not all are kept. They are in the tags of JSON, too.
const (
	serviceNameLabel  = "kubernetes.io/service-name"
	sidecarAnnotation = "sidecar.istio.io/status"
)

// bare is the metadata that every object has.
type bare struct {
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion"`
}

func (b *bare) key() key { return key{b.Namespace, b.Name} }

// metadata is that of objects that become resources.
type metadata struct {
	bare

	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	CreationTimestamp time.Time         `json:"creationTimestamp"`
}

// serviceObject is a Service.
type serviceObject struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		Type                string        `json:"type"`
		ClusterIP           string        `json:"clusterIP"`
		ClusterIPs          []string      `json:"clusterIPs"`
		IPFamilies          []string      `json:"ipFamilies"`
		ExternalName        string        `json:"externalName"`
		TrafficDistribution string        `json:"trafficDistribution"`
		Ports               []servicePort `json:"ports"`
		ExternalIPs         []string      `json:"externalIPs"`

		Selector map[string]string `json:"selector"`
	} `json:"spec"`
	Status struct {
		LoadBalancer struct {
			Ingress []ingress `json:"ingress"`
		} `json:"loadBalancer"`
	} `json:"status"`
}

// ingress is an address of a load balancer.
type ingress struct {
	IP       string `json:"ip"`
	Hostname string `json:"hostname"`
}

type servicePort struct {
	Name        string     `json:"name"`
	Port        uint32     `json:"port"`
	NodePort    uint32     `json:"nodePort"`
	Protocol    string     `json:"protocol"`
	AppProtocol string     `json:"appProtocol"`
	TargetPort  portNumber `json:"targetPort"`
}

// portNumber is a port by its number; 0 if it is named.
type portNumber uint32

// UnmarshalJSON takes a number, or a name, which is not kept: EndpointSlices have the number.
func (p *portNumber) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '"' {
		*p = 0
		return nil
	}
	return json.Unmarshal(text, (*uint32)(p))
}

// sliceObject is an EndpointSlice.
type sliceObject struct {
	Metadata struct {
		bare

		Labels struct {
			Service string `json:"kubernetes.io/service-name"`
		} `json:"labels"`
	} `json:"metadata"`
	AddressType string            `json:"addressType"`
	Endpoints   []endpointObject  `json:"endpoints"`
	Ports       []slicePortObject `json:"ports"`
}

type slicePortObject struct {
	Name     string `json:"name"`
	Port     uint32 `json:"port"`
	Protocol string `json:"protocol"`
}

type endpointObject struct {
	Addresses  []string `json:"addresses"`
	Conditions struct {
		Ready       *bool `json:"ready"`
		Serving     *bool `json:"serving"`
		Terminating bool  `json:"terminating"`
	} `json:"conditions"`
	Hostname  string `json:"hostname"`
	NodeName  string `json:"nodeName"`
	Zone      string `json:"zone"`
	TargetRef struct {
		Kind string `json:"kind"`
		Name string `json:"name"`
	} `json:"targetRef"`
}

// podObject is a Pod.
type podObject struct {
	Metadata struct {
		bare

		Labels      map[string]string `json:"labels"`
		Annotations struct {
			Sidecar string `json:"sidecar.istio.io/status"`
		} `json:"annotations"`
		DeletionTimestamp string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		ServiceAccountName string `json:"serviceAccountName"`
		NodeName           string `json:"nodeName"`
	} `json:"spec"`
	Status struct {
		Phase      string         `json:"phase"`
		PodIP      string         `json:"podIP"`
		Conditions []podCondition `json:"conditions"`
	} `json:"status"`
}

type podCondition struct {
	Type   string `json:"type"`
	Status string `json:"status"`
}

// nodeObject is a Node.
type nodeObject struct {
	Metadata struct {
		bare

		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Status struct {
		Addresses []nodeAddress `json:"addresses"`
	} `json:"status"`
}

type nodeAddress struct {
	Type    string `json:"type"`
	Address string `json:"address"`
}

// configObject is a resource of a kind of the mesh.
type configObject struct {
	Metadata struct {
		metadata

		Generation int64 `json:"generation"`
	} `json:"metadata"`
	Spec   json.RawMessage `json:"spec"`
	Status statusObject    `json:"status"`
}

// Version implements follow.Object, and so do the others.
func (o serviceObject) Version() string { return o.Metadata.ResourceVersion }

// Version implements follow.Object.
func (o sliceObject) Version() string { return o.Metadata.ResourceVersion }

// Version implements follow.Object.
func (o podObject) Version() string { return o.Metadata.ResourceVersion }

// Version implements follow.Object.
func (o nodeObject) Version() string { return o.Metadata.ResourceVersion }

// Version implements follow.Object.
func (o configObject) Version() string { return o.Metadata.ResourceVersion }

func (o serviceObject) key() key { return o.Metadata.bare.key() }
func (o sliceObject) key() key   { return o.Metadata.bare.key() }
func (o podObject) key() key     { return o.Metadata.bare.key() }
func (o nodeObject) key() key    { return o.Metadata.bare.key() }

// shared is a text that many objects have, kept once.
func shared(text string) string { return unique.Make(text).Value() }

func sharedAll(labels map[string]string) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	out := make(map[string]string, len(labels))
	for k, v := range labels {
		out[shared(k)] = shared(v)
	}
	return out
}
