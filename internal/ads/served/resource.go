package served

import (
	"sync/atomic"

	"google.golang.org/protobuf/types/known/anypb"
)

// Resource is one resource as it is sent. Streams share it, so it must not be changed.
type Resource struct {
	Name string
	// Version changes exactly when Body does. A client that names it on reconnecting is not sent
	// the body again.
	Version string
	// Body is nil if the resource says that there is nothing of this name, to a client that would
	// otherwise wait. Only delta clients are sent that.
	Body *anypb.Any

	// Empty says that nothing is left in the resource, such as endpoints without any address. For a
	// client that has another version this is a removal, and a plan treats it as one.
	Empty bool

	// Refs are the resources that a client asks for once it has this one and needs to use it, such
	// as the endpoints of a cluster. A plan's stage waits for them, unless they are of a later
	// stage, which then waits. When this resource changes they are sent again.
	Refs []Ref

	// Warms says that a client may still not use this resource when it has it and its Refs.
	Warms bool

	encodes atomic.Pointer[Encoded]
}

// Ref names a resource of another type.
type Ref struct{ TypeURL, Name string }
