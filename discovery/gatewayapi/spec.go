package gatewayapi

import (
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/pgmesh/pgmesh/kinds"
)

// specOf reads the spec of a resource. Those from servers that check nothing may be anything.
func specOf[T any](r *kinds.Resource) (spec T, err error) {
	fields, ok := r.Spec.Message().(*structpb.Struct)
	if !ok {
		return spec, errors.New("the spec is no object")
	}
	text, err := json.Marshal(fields.AsMap()) // which takes less than to have protojson write it
	if err != nil {
		return spec, err
	}
	return spec, json.Unmarshal(text, &spec)
}

// unreadable is the problem of a resource whose spec cannot be read.
func unreadable(r *kinds.Resource, err error) []Problem {
	return []Problem{{r.Key(), "spec", fmt.Sprintf("cannot be read (%v): the whole resource is left out. Write it as the Gateway API has it", err)}}
}

// ref names another resource. What is not said has a default, which depends on the field.
type ref struct {
	Group     *string `json:"group"`
	Kind      *string `json:"kind"`
	Namespace *string `json:"namespace"`
	Name      string  `json:"name"`
}

// target is what a ref names, with every default filled in.
type target struct{ group, kind, namespace, name string }

func (r ref) resolved(group, kind, namespace string) target {
	return target{or(r.Group, group), or(r.Kind, kind), or(r.Namespace, namespace), r.Name}
}

func or[T any](value *T, otherwise T) T {
	if value != nil {
		return *value
	}
	return otherwise
}

func (t target) is(group, kind string) bool { return t.group == group && t.kind == kind }

type classSpec struct {
	ControllerName string `json:"controllerName"`
}

type gatewaySpec struct {
	GatewayClassName string         `json:"gatewayClassName"`
	Addresses        []addressSpec  `json:"addresses"`
	Listeners        []listenerSpec `json:"listeners"`
	AllowedListeners struct {
		Namespaces *namespacesSpec `json:"namespaces"`
	} `json:"allowedListeners"`
	TLS struct {
		Backend *struct {
			ClientCertificateRef *ref `json:"clientCertificateRef"`
		} `json:"backend"`
		Frontend *struct {
			Default clientSpec `json:"default"`
			PerPort []struct {
				Port uint32     `json:"port"`
				TLS  clientSpec `json:"tls"`
			} `json:"perPort"`
		} `json:"frontend"`
	} `json:"tls"`
}

type listenerSetSpec struct {
	ParentRef ref            `json:"parentRef"`
	Listeners []listenerSpec `json:"listeners"`
}

type addressSpec struct {
	Type  *string `json:"type"`
	Value string  `json:"value"`
}

type listenerSpec struct {
	Name          string   `json:"name"`
	Hostname      string   `json:"hostname"`
	Port          uint32   `json:"port"`
	Protocol      string   `json:"protocol"`
	TLS           *tlsSpec `json:"tls"`
	AllowedRoutes struct {
		Kinds []struct {
			Group *string `json:"group"`
			Kind  string  `json:"kind"`
		} `json:"kinds"`
		Namespaces *namespacesSpec `json:"namespaces"`
	} `json:"allowedRoutes"`
}

type tlsSpec struct {
	Mode            *string           `json:"mode"`
	CertificateRefs []ref             `json:"certificateRefs"`
	Options         map[string]string `json:"options"`
}

// clientSpec says by which authorities certificates of clients are checked.
type clientSpec struct {
	Validation *struct {
		CACertificateRefs []ref  `json:"caCertificateRefs"`
		Mode              string `json:"mode"`
	} `json:"validation"`
}

type namespacesSpec struct {
	From     *string       `json:"from"`
	Selector *selectorSpec `json:"selector"`
}

type selectorSpec struct {
	MatchLabels      map[string]string `json:"matchLabels"`
	MatchExpressions []struct {
		Key      string   `json:"key"`
		Operator string   `json:"operator"`
		Values   []string `json:"values"`
	} `json:"matchExpressions"`
}

type grantSpec struct {
	From []struct {
		Group     string `json:"group"`
		Kind      string `json:"kind"`
		Namespace string `json:"namespace"`
	} `json:"from"`
	To []struct {
		Group string  `json:"group"`
		Kind  string  `json:"kind"`
		Name  *string `json:"name"`
	} `json:"to"`
}

// routeSpec is that of all kinds of routes: what one of them does not have is not said.
type routeSpec struct {
	ParentRefs []parentSpec `json:"parentRefs"`
	Hostnames  []string     `json:"hostnames"`
	Rules      []ruleSpec   `json:"rules"`
}

type parentSpec struct {
	ref

	SectionName string `json:"sectionName"`
	Port        uint32 `json:"port"`
}

type ruleSpec struct {
	Name        *string       `json:"name"`
	Matches     []matchSpec   `json:"matches"`
	Filters     []filterSpec  `json:"filters"`
	BackendRefs []backendSpec `json:"backendRefs"`
	Timeouts    struct {
		Request        *string `json:"request"`
		BackendRequest *string `json:"backendRequest"`
	} `json:"timeouts"`
	Retry *struct {
		Codes    []int   `json:"codes"`
		Attempts *int32  `json:"attempts"`
		Backoff  *string `json:"backoff"`
	} `json:"retry"`
	SessionPersistence *sessionSpec `json:"sessionPersistence"`
}

type sessionSpec struct {
	SessionName     *string `json:"sessionName"`
	Type            *string `json:"type"`
	AbsoluteTimeout *string `json:"absoluteTimeout"`
	CookieConfig    struct {
		LifetimeType string `json:"lifetimeType"`
	} `json:"cookieConfig"`
}

type backendSpec struct {
	ref

	Port    uint32       `json:"port"`
	Weight  *int32       `json:"weight"`
	Filters []filterSpec `json:"filters"`
}

func (b backendSpec) weight() int32 { return or(b.Weight, 1) }

// matchSpec is that of requests and of calls of gRPC: the method of one is a text, of the other an
// object.
type matchSpec struct {
	Path struct {
		Type  *string `json:"type"`
		Value *string `json:"value"`
	} `json:"path"`
	Headers     []valueSpec     `json:"headers"`
	QueryParams []valueSpec     `json:"queryParams"`
	Method      json.RawMessage `json:"method"`
}

type callSpec struct {
	Type    *string `json:"type"`
	Service string  `json:"service"`
	Method  string  `json:"method"`
}

type valueSpec struct {
	Type  *string `json:"type"`
	Name  string  `json:"name"`
	Value string  `json:"value"`
}

type filterSpec struct {
	Type                   string        `json:"type"`
	RequestHeaderModifier  *modifierSpec `json:"requestHeaderModifier"`
	ResponseHeaderModifier *modifierSpec `json:"responseHeaderModifier"`
	RequestMirror          *struct {
		BackendRef backendSpec `json:"backendRef"`
		Percent    *int32      `json:"percent"`
		Fraction   *struct {
			Numerator   int32  `json:"numerator"`
			Denominator *int32 `json:"denominator"`
		} `json:"fraction"`
	} `json:"requestMirror"`
	RequestRedirect *redirectSpec `json:"requestRedirect"`
	URLRewrite      *struct {
		Hostname string    `json:"hostname"`
		Path     *pathSpec `json:"path"`
	} `json:"urlRewrite"`
	CORS         *corsSpec         `json:"cors"`
	ExternalAuth *externalAuthSpec `json:"externalAuth"`
}

type modifierSpec struct {
	Set    []valueSpec `json:"set"`
	Add    []valueSpec `json:"add"`
	Remove []string    `json:"remove"`
}

type redirectSpec struct {
	Scheme     *string   `json:"scheme"`
	Hostname   string    `json:"hostname"`
	Path       *pathSpec `json:"path"`
	Port       *uint32   `json:"port"`
	StatusCode *uint32   `json:"statusCode"`
}

type pathSpec struct {
	Type               string `json:"type"`
	ReplaceFullPath    string `json:"replaceFullPath"`
	ReplacePrefixMatch string `json:"replacePrefixMatch"`
}

type corsSpec struct {
	AllowOrigins     []string `json:"allowOrigins"`
	AllowCredentials bool     `json:"allowCredentials"`
	AllowMethods     []string `json:"allowMethods"`
	AllowHeaders     []string `json:"allowHeaders"`
	ExposeHeaders    []string `json:"exposeHeaders"`
	MaxAge           int64    `json:"maxAge"`
}

// poolSpec is that of an InferencePool.
type poolSpec struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	TargetPorts       []portSpec `json:"targetPorts"`
	AppProtocol       string     `json:"appProtocol"`
	EndpointPickerRef struct {
		ref

		Port        portSpec `json:"port"`
		FailureMode string   `json:"failureMode"`
	} `json:"endpointPickerRef"`
}

type portSpec struct {
	Number uint32 `json:"number"`
}

// targetSpec is what a policy is for.
type targetSpec struct {
	ref

	SectionName string `json:"sectionName"`
}

type backendTLSSpec struct {
	TargetRefs []targetSpec   `json:"targetRefs"`
	Validation validationSpec `json:"validation"`
}

type trafficSpec struct {
	TargetRefs      []targetSpec `json:"targetRefs"`
	RetryConstraint *struct {
		Budget struct {
			Percent  *float64 `json:"percent"`
			Interval *string  `json:"interval"`
		} `json:"budget"`
		MinRetryRate struct {
			Count *uint32 `json:"count"`
		} `json:"minRetryRate"`
	} `json:"retryConstraint"`
	SessionPersistence *sessionSpec `json:"sessionPersistence"`
}

// validationSpec says what the certificates of servers are checked by.
type validationSpec struct {
	CACertificateRefs       []ref  `json:"caCertificateRefs"`
	WellKnownCACertificates string `json:"wellKnownCACertificates"`
	Hostname                string `json:"hostname"`
	SubjectAltNames         []struct {
		Type     string `json:"type"`
		Hostname string `json:"hostname"`
		URI      string `json:"uri"`
	} `json:"subjectAltNames"`
}
