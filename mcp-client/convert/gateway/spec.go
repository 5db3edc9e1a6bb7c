package gateway

// Gateway is the spec of a Gateway.
type Gateway struct {
	Class     string     `json:"gatewayClassName"`
	Listeners []Listener `json:"listeners"`
	TLS       *Frontends `json:"tls,omitempty"`
}

// Listener is a listener of a Gateway.
type Listener struct {
	Name          string         `json:"name"`
	Hostname      string         `json:"hostname,omitempty"`
	Port          int            `json:"port"`
	Protocol      string         `json:"protocol"`
	TLS           *TLS           `json:"tls,omitempty"`
	AllowedRoutes *AllowedRoutes `json:"allowedRoutes,omitempty"`
}

// TLS is how a listener speaks TLS.
type TLS struct {
	Mode         string            `json:"mode,omitempty"`
	Certificates []Ref             `json:"certificateRefs,omitempty"`
	Options      map[string]string `json:"options,omitempty"`
}

// Ref names another resource.
type Ref struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// AuthorityRef names a resource of the core group, which has to be written where it is no default.
type AuthorityRef struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

// AllowedRoutes says whose routes a listener takes.
type AllowedRoutes struct {
	Namespaces Namespaces `json:"namespaces"`
}

// Namespaces are all, those of a selector, or the Gateway's own.
type Namespaces struct {
	From     string    `json:"from"`
	Selector *Selector `json:"selector,omitempty"`
}

// Selector chooses namespaces by their labels.
type Selector struct {
	Expressions []Expression `json:"matchExpressions"`
}

// Expression is one condition of a Selector.
type Expression struct {
	Key      string   `json:"key"`
	Operator string   `json:"operator"`
	Values   []string `json:"values"`
}

// Frontends says how clients are checked.
type Frontends struct {
	Frontend Frontend `json:"frontend"`
}

// Frontend has the default, which must be there, and what is otherwise for a port.
type Frontend struct {
	Default FrontendTLS `json:"default"`
	PerPort []PerPort   `json:"perPort,omitempty"`
}

// PerPort says how clients of a port are checked.
type PerPort struct {
	Port int         `json:"port"`
	TLS  FrontendTLS `json:"tls"`
}

// FrontendTLS says by which authorities clients are checked; by none if it is empty.
type FrontendTLS struct {
	Validation *Validation `json:"validation,omitempty"`
}

// Validation names authorities of clients.
type Validation struct {
	Authorities []AuthorityRef `json:"caCertificateRefs"`
	Mode        string         `json:"mode,omitempty"`
}

// Parent is what a route is attached to.
type Parent struct {
	Group       *string `json:"group,omitempty"`
	Kind        string  `json:"kind,omitempty"`
	Namespace   string  `json:"namespace,omitempty"`
	Name        string  `json:"name"`
	SectionName string  `json:"sectionName,omitempty"`
	Port        int     `json:"port,omitempty"`
}

// Backend is where requests go.
type Backend struct {
	Group     string   `json:"group,omitempty"`
	Kind      string   `json:"kind,omitempty"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	Port      int      `json:"port,omitempty"`
	Weight    *int     `json:"weight,omitempty"`
	Filters   []Filter `json:"filters,omitempty"`
}

// Hostname is the backend with a host, whatever has it.
func Hostname(host string, port int) Backend {
	return Backend{Group: "networking.istio.io", Kind: "Hostname", Name: host, Port: port}
}

// Filter changes requests or answers, or answers itself.
type Filter struct {
	Type            string    `json:"type"`
	RequestHeaders  *Modifier `json:"requestHeaderModifier,omitempty"`
	ResponseHeaders *Modifier `json:"responseHeaderModifier,omitempty"`
	Redirect        *Redirect `json:"requestRedirect,omitempty"`
	Rewrite         *Rewrite  `json:"urlRewrite,omitempty"`
	Mirror          *Mirror   `json:"requestMirror,omitempty"`
	CORS            *CORS     `json:"cors,omitempty"`
}

// Modifier changes headers.
type Modifier struct {
	Set    []Header `json:"set,omitempty"`
	Add    []Header `json:"add,omitempty"`
	Remove []string `json:"remove,omitempty"`
}

// Empty reports whether nothing is changed.
func (m *Modifier) Empty() bool { return len(m.Set)+len(m.Add)+len(m.Remove) == 0 }

// Header is the value of a header.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Redirect says where clients are to ask.
type Redirect struct {
	Scheme     string `json:"scheme,omitempty"`
	Hostname   string `json:"hostname,omitempty"`
	Path       *Path  `json:"path,omitempty"`
	Port       int    `json:"port,omitempty"`
	StatusCode int    `json:"statusCode,omitempty"`
}

// Rewrite says what requests are changed to.
type Rewrite struct {
	Hostname string `json:"hostname,omitempty"`
	Path     *Path  `json:"path,omitempty"`
}

// Path is what replaces a path, or its prefix.
type Path struct {
	Type   string  `json:"type"`
	Full   *string `json:"replaceFullPath,omitempty"`
	Prefix *string `json:"replacePrefixMatch,omitempty"`
}

// FullPath replaces the whole path.
func FullPath(with string) *Path { return &Path{Type: "ReplaceFullPath", Full: &with} }

// PrefixPath replaces the prefix that is matched.
func PrefixPath(with string) *Path { return &Path{Type: "ReplacePrefixMatch", Prefix: &with} }

// Mirror copies requests, all or a part.
type Mirror struct {
	Backend  Backend   `json:"backendRef"`
	Percent  *int      `json:"percent,omitempty"`
	Fraction *Fraction `json:"fraction,omitempty"`
}

// Fraction is a part of something.
type Fraction struct {
	Numerator   int `json:"numerator"`
	Denominator int `json:"denominator"`
}

// CORS says which other origins may ask.
type CORS struct {
	AllowOrigins     []string `json:"allowOrigins,omitempty"`
	AllowCredentials bool     `json:"allowCredentials,omitempty"`
	AllowMethods     []string `json:"allowMethods,omitempty"`
	AllowHeaders     []string `json:"allowHeaders,omitempty"`
	ExposeHeaders    []string `json:"exposeHeaders,omitempty"`
	MaxAge           int      `json:"maxAge,omitempty"`
}

// Timeouts bound requests.
type Timeouts struct {
	Request string `json:"request,omitempty"`
	Backend string `json:"backendRequest,omitempty"`
}

// Retry says what is tried again.
type Retry struct {
	Codes    []int  `json:"codes,omitempty"`
	Attempts *int   `json:"attempts,omitempty"`
	Backoff  string `json:"backoff,omitempty"`
}

// Connections is the spec of a TLSRoute or a TCPRoute.
type Connections struct {
	Parents   []Parent         `json:"parentRefs"`
	Hostnames []string         `json:"hostnames,omitempty"`
	Rules     []ConnectionRule `json:"rules"`
}

// ConnectionRule says where connections go.
type ConnectionRule struct {
	Backends []Backend `json:"backendRefs"`
}

type routeSpec struct {
	Parents   []Parent   `json:"parentRefs"`
	Hostnames []string   `json:"hostnames,omitempty"`
	Rules     []ruleSpec `json:"rules"`
}

type ruleSpec struct {
	Name     string      `json:"name,omitempty"`
	Matches  []matchSpec `json:"matches,omitempty"`
	Filters  []Filter    `json:"filters,omitempty"`
	Backends []Backend   `json:"backendRefs,omitempty"`
	Timeouts *Timeouts   `json:"timeouts,omitempty"`
	Retry    *Retry      `json:"retry,omitempty"`
}

type matchSpec struct {
	Path    *pathSpec   `json:"path,omitempty"`
	Headers []valueSpec `json:"headers,omitempty"`
	Params  []valueSpec `json:"queryParams,omitempty"`
	Method  string      `json:"method,omitempty"`
}

type pathSpec struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

type valueSpec struct {
	Type  string `json:"type,omitempty"`
	Name  string `json:"name"`
	Value string `json:"value"`
}
