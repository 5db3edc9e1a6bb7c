package limits

import "context"

// decodedCosts is how many bytes a request takes for each byte that it has on the wire: itself, the names and versions in it as they are decoded, and what is
// made of those.
const decodedCosts = 4

// Reader is a stream whose requests take memory of a budget.
type Reader struct {
	Context context.Context //nolint:containedctx // it is the stream's
	Memory  *Memory
	Holder  string // whose stream it is
}

// Admit returns the admission for the next request.
func (r *Reader) Admit() *Admission { return &Admission{of: r} }

// Admission is what a request needs before it is decoded. gRPC calls what decodes, and takes no status from there.
type Admission struct {
	of      *Reader
	release func()
	err     error
}

// Decoded takes the memory for a message, and decodes it if there is some.
func (a *Admission) Decoded(message []byte, decode func() error) error {
	if a.release, a.err = a.of.Memory.Take(a.of.Context, a.of.Holder, decodedCosts*len(message)); a.err != nil {
		return nil // Result has it
	}
	done := false
	defer func() {
		if !done { // it panics, and nobody asks for the result
			a.release()
		}
	}()
	err := decode()
	done = true
	return err
}

// Result returns what gives the memory back, once the message was received, or why there was none. It is given the error of that.
func (a *Admission) Result(received error) (release func(), err error) {
	switch {
	case a.err != nil:
		return nil, a.err
	case received != nil && a.release != nil:
		a.release()
	}
	return a.release, received
}
