package mcp

import (
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
)

// maxNamed bounds how many resources a refusal names, since it is sent and logged.
const maxNamed = 20

// refusal says why a response is refused.
type refusal struct {
	code   codes.Code
	named  []error
	others int
}

func (r *refusal) add(err error) {
	if len(r.named) == maxNamed {
		r.others++
		return
	}
	r.named = append(r.named, err)
}

func (r *refusal) Error() string {
	text := errors.Join(r.named...).Error()
	if r.others > 0 {
		text += fmt.Sprintf("\nand %d more", r.others)
	}
	return text
}

func (r *refusal) status() *status.Status {
	return &status.Status{Code: int32(r.code), Message: r.Error()}
}

// refuse refuses a response as a whole.
func refuse(code codes.Code, err error) *refusal { return &refusal{code: code, named: []error{err}} }
