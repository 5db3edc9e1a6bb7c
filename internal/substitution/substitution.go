// Package substitution tells whether a text has the form of Envoy's formats: those of access logs,
// tags and headers, in which %COMMAND(ARGUMENT):LENGTH% stands for something of a request, and %%
// for a percent sign.
//
// https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage
package substitution

import (
	"fmt"
	"regexp"
	"strings"
)

// command is what may begin at a percent sign, as Envoy looks for it.
var command = regexp.MustCompile(`^%[A-Z0-9_]+(\([^\n]*?\))?(:[0-9]+)?%`)

// Wrong says what is wrong with a format, and what to do; "" if nothing is. It does not know the
// commands: each version of Envoy has others.
func Wrong(format string) string {
	for at := 0; at < len(format); {
		next := strings.IndexByte(format[at:], '%')
		if next < 0 {
			break
		}
		at += next
		if strings.HasPrefix(format[at:], "%%") {
			at += 2
			continue
		}
		found := command.FindString(format[at:])
		if found == "" {
			return fmt.Sprintf("has a \"%%\" at %d that begins no command, as %%PROTOCOL%% would. Write \"%%%%\" for a percent sign", at+1)
		}
		at += len(found)
	}
	return ""
}
