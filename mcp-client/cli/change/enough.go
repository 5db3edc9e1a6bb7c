package change

import (
	"errors"
	"strconv"
	"strings"

	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// allProxies is the value of --wait that waits for every proxy, as it does without a value.
const allProxies = "all"

// enough is the value of --wait: how many proxies to wait for. It is a pflag.Value.
type enough struct {
	text  string  // as it was given; "" if it was not
	share float64 // of those that are connected
	count int32   // if it is not a share
}

// String implements pflag.Value.
func (e *enough) String() string { return e.text }

// Type implements pflag.Value.
func (e *enough) Type() string { return "proxies" }

// Set implements pflag.Value.
func (e *enough) Set(text string) error {
	switch text {
	case allProxies, "true":
		*e = enough{text: allProxies, share: 1}
		return nil
	case "false": // as kubectl has it: none is waited for
		*e = enough{}
		return nil
	}
	if percent, is := strings.CutSuffix(text, "%"); is {
		if share, err := strconv.ParseFloat(percent, 64); err == nil && share > 0 && share <= 100 {
			*e = enough{text: text, share: share / 100}
			return nil
		}
	} else if count, err := strconv.ParseInt(text, 10, 32); err == nil && count > 0 {
		*e = enough{text: text, count: int32(count)}
		return nil
	}
	return errors.New("write all, a share such as 90%, or a number of proxies such as 3")
}

// asked says how many were waited for in vain, "" if it was all of them, for then that is plain.
func (e *enough) asked() string {
	switch {
	case e.text == allProxies:
		return ""
	case e.count == 1:
		return ", where 1 was asked for"
	}
	return ", where " + e.text + " were asked for"
}

// ask says in a request how many proxies to wait for.
func (e *enough) ask(req *adminv1.WaitUntilRunRequest) {
	if e.count > 0 {
		req.Enough = &adminv1.WaitUntilRunRequest_Count{Count: e.count}
		return
	}
	req.Enough = &adminv1.WaitUntilRunRequest_Share{Share: e.share}
}
