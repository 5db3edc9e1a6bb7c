package zookeeper

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pgmesh/pgmesh/registry/service"
	"github.com/pgmesh/pgmesh/registry/zookeeper/tree"
)

// curator is the format of Curator's service discovery: /services/NAME/ID holds an instance as JSON.
// Spring Cloud and Dubbo 3, where it registers applications, write it, too.
type curator struct{ *settings }

func (c curator) shape() tree.Shape { return tree.Shape{Lists: 2, Contents: true} }

// curatorInstance is an instance as Curator writes it.
type curatorInstance struct {
	Address string          `json:"address"`
	Port    *int64          `json:"port"`
	SSLPort *int64          `json:"sslPort"`
	Payload json.RawMessage `json:"payload"`
	URISpec *struct {
		Parts []struct {
			Value    string `json:"value"`
			Variable bool   `json:"variable"`
		} `json:"parts"`
	} `json:"uriSpec"`
	Enabled *bool `json:"enabled"`
}

func (c curator) read(_ string, content []byte) (entry, error) {
	if len(content) > mostContent {
		return entry{}, fmt.Errorf("it has more than %d KiB", mostContent>>10)
	}
	var from curatorInstance
	if err := json.Unmarshal(content, &from); err != nil {
		return entry{}, fmt.Errorf("it is no instance as Curator writes it: %w", err)
	}
	port, secure, err := from.port()
	if err != nil {
		return entry{}, err
	}
	said := metadata(from.Payload)
	i := &instance{Instance: service.Instance{Address: from.Address, Labels: said}, port: port}
	i.describe(said, c.settings)
	i.protocol = cmp.Or(service.Protocol(said[keyProtocol]), protocolOf(port, said[keyEndpoints]), from.protocol(secure, c.settings))
	if err := i.weigh(said[keyWeight]); err != nil {
		return entry{}, err
	}
	i.off = from.Enabled != nil && !*from.Enabled || said[keyStatus] != "" && said[keyStatus] != statusUp
	return entry{instance: i}, i.check()
}

// Spring Cloud writes so that an instance is to get no requests.
const (
	keyStatus = "instance_status"
	statusUp  = "UP"
)

// port is where an instance serves, and whether by TLS: it is reached by that only if there is no
// other port.
func (from *curatorInstance) port() (port uint32, secure bool, err error) {
	at := from.Port
	if at == nil || *at == 0 {
		at, secure = from.SSLPort, true
	}
	if at == nil || *at == 0 {
		return 0, false, nil
	}
	if *at < 0 || *at > largestPort {
		return 0, false, fmt.Errorf("%d is no port", *at)
	}
	return uint32(*at), secure, nil
}

// keyEndpoints is where Dubbo 3 writes which protocol an application speaks at which port:
// [{"port":50051,"protocol":"tri"}].
const keyEndpoints = "dubbo.endpoints"

// protocolOf is the protocol of a port by Dubbo's list; "" if that does not say, or is none.
func protocolOf(port uint32, endpoints string) string {
	var all []struct {
		Port     uint32 `json:"port"`
		Protocol string `json:"protocol"`
	}
	if endpoints == "" || json.Unmarshal([]byte(endpoints), &all) != nil {
		return ""
	}
	for _, e := range all {
		if e.Port == port {
			return dubboProtocols[e.Protocol]
		}
	}
	return ""
}

// protocol is what the URI of the instance begins with, else that of the registry.
func (from *curatorInstance) protocol(secure bool, s *settings) string {
	var before strings.Builder
	if from.URISpec != nil {
		for _, part := range from.URISpec.Parts {
			if part.Variable && part.Value == "scheme" && secure {
				return "HTTPS"
			} else if part.Variable && part.Value == "scheme" {
				return "HTTP"
			}
			if before.WriteString(part.Value); strings.Contains(part.Value, ":") {
				break
			}
		}
	}
	scheme, _, _ := strings.Cut(before.String(), ":")
	if known := service.Protocol(scheme); known != "" {
		return known
	}
	if secure && s.protocol == "" {
		return "TLS"
	}
	return s.protocol
}

// metadata are what the payload says: that of Spring Cloud and Dubbo has "metadata", in others all
// that is text, a number or true counts.
func metadata(payload json.RawMessage) map[string]string {
	var all map[string]any
	if json.Unmarshal(payload, &all) != nil { // Curator lets programs write what they like
		return nil
	}
	if inner, has := all["metadata"].(map[string]any); has {
		all = inner
	}
	out := make(map[string]string, len(all))
	for key, value := range all {
		switch v := value.(type) {
		case string:
			out[key] = v
		case float64, bool:
			out[key] = fmt.Sprint(v)
		}
	}
	return out
}

// drawnPort is where a service is reached whose instances have many ports.
const drawnPort = 80

func (c curator) services(group string, all []*entry) ([]*service.Service, error) {
	at := strings.ToLower(group) + "." + c.domain
	if !validHost(at) {
		return nil, fmt.Errorf("the name %q is none of DNS, so nobody can ask for %s", group, at)
	}
	instances := make([]*instance, len(all))
	for n, e := range all {
		instances[n] = e.instance
	}
	return []*service.Service{c.makeService(group, group, at, drawnPort, instances)}, nil
}
