package schema

import (
	"encoding/json"
	"net/netip"
	"regexp"
	"strings"
)

// isIP reports whether a string is an IP address, of either version.
func isIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// isCIDR reports whether a string is an IP address or a range of them.
func isCIDR(s string) bool {
	if !strings.Contains(s, "/") {
		return isIP(s)
	}
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// conditionAddresses demands that a condition on addresses compares with addresses or ranges.
func conditionAddresses(object, _ map[string]any) (problems []Problem) {
	for _, name := range []string{"values", "notValues"} {
		for i, value := range stringList(object[name]) {
			if !isCIDR(value) {
				problems = append(problems, Problem{Item(name, i), `"` + value + `" is not an IP address or range`, ""})
			}
		}
	}
	return problems
}

var (
	hostName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*\.?$`)
	notHost  = regexp.MustCompile(`[^.]{64}|(^|\.)[0-9]+$`)
)

// isAddress reports whether a string is an address of a workload: an IP address, a host name, or
// the path of a Unix socket, where "@" begins the name of an abstract one.
func isAddress(s string) bool {
	if path, ok := strings.CutPrefix(s, "unix://"); ok {
		return (strings.HasPrefix(path, "/") || strings.HasPrefix(path, "@")) && !strings.HasSuffix(path, "/")
	}
	return isIP(s) || len(s) <= 255 && hostName.MatchString(s) && !notHost.MatchString(s)
}

// jwkMembers are the members that a JSON Web Key needs beside its type.
var jwkMembers = map[string][]string{"RSA": {"n", "e"}, "EC": {"crv", "x", "y"}, "OKP": {"crv", "x"}, "oct": {"k"}}

// isJWKS reports whether a string is a JSON Web Key Set or a single key.
func isJWKS(s string) bool {
	var set map[string]json.RawMessage
	if strings.Contains(s, `\u0000`) || json.Unmarshal([]byte(s), &set) != nil {
		return false
	}
	list, ok := set["keys"]
	if !ok {
		return isJWK([]byte(s))
	}
	var keys []json.RawMessage
	if json.Unmarshal(list, &keys) != nil {
		return false
	}
	for _, key := range keys {
		if !isJWK(key) {
			return false
		}
	}
	return true
}

func isJWK(text []byte) bool {
	var key map[string]any
	if json.Unmarshal(text, &key) != nil {
		return false
	}
	kind, _ := key["kty"].(string)
	members, known := jwkMembers[kind]
	for _, member := range members {
		if value, _ := key[member].(string); value == "" {
			return false
		}
	}
	return known
}
