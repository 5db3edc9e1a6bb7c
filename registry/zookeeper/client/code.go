package client

import (
	"errors"
	"fmt"
)

// Code is why ZooKeeper does not do what it is asked.
type Code int32

// The codes that mean something to a reader.
const (
	NoNode        Code = -101
	NoAuth        Code = -102
	Unimplemented Code = -6
)

var codes = map[Code]string{
	NoNode: "there is no such node", NoAuth: "these credentials may not read it", Unimplemented: "this ZooKeeper is too old for it",
	-4: "ZooKeeper lost its connection", -5: "ZooKeeper cannot read the request", -7: "ZooKeeper took too long", -8: "ZooKeeper takes the request for a wrong one",
	-112: "the session has ended", -115: "ZooKeeper does not accept the credentials", -118: "the session has moved", -127: "ZooKeeper is busy",
}

func (c Code) Error() string {
	if text, known := codes[c]; known {
		return text
	}
	return fmt.Sprintf("ZooKeeper's code %d", int32(c))
}

// mine reports whether a code is about the node that was asked for. Others end the session.
func (c Code) mine() bool { return c == NoNode || c == NoAuth || c == Unimplemented }

// ErrTooLarge says that an answer has more than MostBytes.
var ErrTooLarge = errors.New("it is too large: ZooKeeper answers with more than 32 MiB")

// MostBytes bounds an answer: the names of 500,000 nodes. ZooKeeper itself takes a megabyte.
const MostBytes = 32 << 20
