package gatewayapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Status is what is decided here of the status of a resource, in the API's own shape. What depends on
// machines is not in it: whether something is programmed, and addresses. Nor is since when a condition
// holds, and of which generation.
type Status struct {
	Conditions           []Condition      `json:"conditions,omitempty"`
	Parents              []ParentStatus   `json:"parents,omitempty"`
	Ancestors            []AncestorStatus `json:"ancestors,omitempty"`
	Listeners            []ListenerStatus `json:"listeners,omitempty"`
	AttachedListenerSets *int             `json:"attachedListenerSets,omitempty"`
	// Addresses are those that a Gateway asks for. Its status has those of them that machines have.
	Addresses         []Address `json:"addresses,omitempty"`
	SupportedFeatures []Feature `json:"supportedFeatures,omitempty"`
}

// Condition is a condition of a resource, of a listener, or of a route at a parent.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Address is an address of a Gateway.
type Address struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// ParentStatus is how a route stands at a parent.
type ParentStatus struct {
	ParentRef      ParentReference `json:"parentRef"`
	ControllerName string          `json:"controllerName"`
	Conditions     []Condition     `json:"conditions"`
	// Listeners are those of the parent that take the route. The API's shape has no place for them: the
	// database shows them beside it.
	Listeners []string `json:"listeners,omitempty"`
}

// AncestorStatus is how a policy stands at a Gateway whose routes lead to what it is for.
type AncestorStatus struct {
	AncestorRef    ParentReference `json:"ancestorRef"`
	ControllerName string          `json:"controllerName"`
	Conditions     []Condition     `json:"conditions"`
}

// ParentReference names a parent as the route does.
type ParentReference struct {
	Group       *string `json:"group,omitempty"`
	Kind        *string `json:"kind,omitempty"`
	Namespace   *string `json:"namespace,omitempty"`
	Name        string  `json:"name"`
	SectionName string  `json:"sectionName,omitempty"`
	Port        uint32  `json:"port,omitempty"`
}

// ListenerStatus is how a listener stands.
type ListenerStatus struct {
	Name           string      `json:"name"`
	SupportedKinds []RouteKind `json:"supportedKinds"`
	AttachedRoutes int         `json:"attachedRoutes"`
	Conditions     []Condition `json:"conditions"`
}

// RouteKind is a kind of routes.
type RouteKind struct {
	Group string `json:"group"`
	Kind  string `json:"kind"`
}

// Feature is a feature by the name that the API's conformance tests have for it.
type Feature struct {
	Name string `json:"name"`
}

// Text is the status as JSON.
func (s *Status) Text() string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // only strings and numbers
	}
	return string(text)
}

// Equal reports whether two statuses, of which either may be nil, say the same.
func (s *Status) Equal(other *Status) bool { return reflect.DeepEqual(s, other) }

// The types of conditions, and the reasons that several of them have.
const (
	condAccepted     = "Accepted"
	condResolved     = "ResolvedRefs"
	condProgrammed   = "Programmed"
	condConflicted   = "Conflicted"
	reasonInvalid    = "Invalid"
	reasonNotValid   = "ListenersNotValid"
	reasonNotAllowed = "NotAllowed"
	reasonNoGateway  = "ParentNotAccepted"
	reasonNoGrant    = "RefNotPermitted"
	reasonUnknown    = "UnsupportedValue"
)

// mostText bounds what a condition says.
const mostText = 1000

// holds is a condition that is as it should be.
func holds(of string) Condition { return Condition{Type: of, Status: "True", Reason: of} }

// fails is a condition that is not as it should be.
func fails(of, reason, message string) Condition { return depending("False", of, reason, message) }

// depending is a condition whose status is another than its type and reason say.
func depending(status, of, reason, message string) Condition {
	if len(message) > mostText {
		message = strings.ToValidUTF8(message[:mostText], "") + " …"
	}
	return Condition{Type: of, Status: status, Reason: reason, Message: message}
}

// fault is why something is not as it was written, by the API's reason. The zero fault is none.
type fault struct{ reason, message string }

// faults are several, the one whose reason counts first.
type faults []fault

// condition is the condition that faults break.
func (f faults) condition(of string) Condition {
	if len(f) == 0 {
		return holds(of)
	}
	var messages []string
	for _, one := range f {
		if !slices.Contains(messages, one.message) {
			messages = append(messages, one.message)
		}
	}
	return fails(of, f[0].reason, strings.Join(messages, "; "))
}

// reference is the parent as the route names it.
func (p parentSpec) reference() ParentReference {
	return ParentReference{Group: p.Group, Kind: p.Kind, Namespace: p.Namespace, Name: p.Name, SectionName: p.SectionName, Port: p.Port}
}

// state notes how the route stands at a parent, and reports whether it is accepted: nothing refuses
// it, or a fault does. The rules may name what is not there, and some of them may be left out.
func (a *attachment) state(p parentSpec, refusal fault, c *conversion) (accepted bool) {
	c.rules()
	conditions := []Condition{holds(condAccepted), c.unresolved.condition(condResolved)}
	switch dropped := c.dropped; {
	case refusal != fault{}:
		conditions[0] = faults{refusal}.condition(condAccepted)
	case len(dropped) == 0:
	case c.allDropped():
		conditions[0] = dropped.condition(condAccepted)
	default:
		conditions = append(conditions, depending("True", "PartiallyInvalid", reasonUnknown, dropped.condition("").Message))
	}
	a.status.Parents = append(a.status.Parents, ParentStatus{ParentRef: p.reference(), ControllerName: Controller, Conditions: conditions})
	return conditions[0].Status == "True"
}

// drop notes that a rule is of no use, and why.
func (c *conversion) drop(rule int, why string) {
	c.droppedRules++
	c.dropped = append(c.dropped, fault{reasonUnknown, fmt.Sprintf("Dropped Rule %d: %s", rule, why)})
}

// allDropped reports whether no rule is of any use.
func (c *conversion) allDropped() bool { return c.droppedRules == len(c.route.spec.Rules) }

// lost notes that a rule names what it cannot have.
func (c *conversion) lost(reason, path, message string) {
	c.unresolved = append(c.unresolved, fault{reason, path + ": " + message})
}
