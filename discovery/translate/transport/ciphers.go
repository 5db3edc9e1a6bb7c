package transport

import (
	"slices"
	"strings"
)

// knownCiphers leaves out what Envoy does not know: it would refuse the whole listener or cluster.
// As in OpenSSL, "-" or "!" before a name takes it away again. [A|B], which says that A is as good
// as B, becomes A and B.
func knownCiphers(suites []string) (out []string) {
	for _, suite := range suites {
		name, removed := strings.CutPrefix(strings.Replace(suite, "!", "-", 1), "-")
		for name := range strings.SplitSeq(strings.Trim(name, "+[]"), "|") {
			switch {
			case name == "ALL" && !removed:
				out = slices.Clone(ciphers)
			case removed:
				out = slices.DeleteFunc(out, func(known string) bool { return known == name || name == "ALL" })
			case slices.Contains(ciphers, name) && !slices.Contains(out, name):
				out = append(out, name)
			}
		}
	}
	return out
}

// ciphers are those of TLS 1.2 that Envoy speaks, by OpenSSL's names.
var ciphers = []string{
	"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
	"ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
	"ECDHE-ECDSA-AES128-SHA", "ECDHE-RSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA", "ECDHE-RSA-AES256-SHA",
	"AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA", "AES256-SHA", "DES-CBC3-SHA",
}

// knownCurves leaves out what Envoy does not know.
func knownCurves(curves []string) (out []string) {
	for _, curve := range curves {
		if slices.Contains(ecdhCurves, curve) && !slices.Contains(out, curve) {
			out = append(out, curve)
		}
	}
	return out
}

// ecdhCurves are those that Envoy can agree on keys with.
var ecdhCurves = []string{"P-256", "P-384", "P-521", "X25519", "X25519MLKEM768"}
