package limits

import "context"

// decodedCosts is the memory that a request takes for each byte on the wire: for the message
// itself, for the names and versions decoded from it, and for what is made from those.
const decodedCosts = 4

// Reader is a stream whose requests take memory of a budget.
type Reader struct {
	Context context.Context //nolint:containedctx // the stream's own
	Memory  *Memory
	Holder  string // who the memory is counted against
}

// Admit returns the admission for the next request.
func (r *Reader) Admit() *Admission { return &Admission{of: r} }

// Admission reserves memory for one request before it is decoded. gRPC calls the decoder, and
// cannot pass on a status from there, so Result returns it.
type Admission struct {
	of      *Reader
	release func()
	err     error
}

// Decoded reserves memory for a message, and decodes it if there is some.
func (a *Admission) Decoded(message []byte, decode func() error) error {
	if a.release, a.err = a.of.Memory.Take(a.of.Context, a.of.Holder, decodedCosts*len(message)); a.err != nil {
		return nil // Result returns the error
	}
	done := false
	defer func() {
		if !done { // it panicked, and nobody will ask for the result
			a.release()
		}
	}()
	err := decode()
	done = true
	return err
}

// Result returns the function that releases the memory, or why there was none. Call it once the
// message was received, with the error of that.
func (a *Admission) Result(received error) (release func(), err error) {
	switch {
	case a.err != nil:
		return nil, a.err
	case received != nil && a.release != nil:
		a.release()
	}
	return a.release, received
}
