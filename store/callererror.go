package store

import "errors"

// callerError marks an error of a caller's function, so that it is not explained as the database's.
type callerError struct{ error }

func (e callerError) Unwrap() error { return e.error }

// OfCaller marks an error as one of a caller's function, for [Explain].
func OfCaller(err error) error { return callerError{err} }

// FromCaller returns the error of a caller's function; nil if err is not one.
func FromCaller(err error) error {
	if e, ok := errors.AsType[callerError](err); ok {
		return e.error
	}
	return nil
}
