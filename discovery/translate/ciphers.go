package translate

import (
	"slices"
	"strings"
)

// knownCiphers leaves out what Envoy lacks, and would refuse the whole listener or cluster for. Names may be taken away again by a "-" or a "!" before
// them, as OpenSSL has it; that some are as good as others, which is written [A|B], is not handed on.
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

// ciphers are those of TLS 1.2 that Envoy can speak, by the names that OpenSSL has for them.
var ciphers = []string{
	"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
	"ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-RSA-CHACHA20-POLY1305",
	"ECDHE-ECDSA-AES128-SHA", "ECDHE-RSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA", "ECDHE-RSA-AES256-SHA",
	"AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA", "AES256-SHA", "DES-CBC3-SHA",
}

// knownCurves leaves out those that Envoy lacks.
func knownCurves(curves []string) (out []string) {
	for _, curve := range curves {
		if slices.Contains(ecdhCurves, curve) && !slices.Contains(out, curve) {
			out = append(out, curve)
		}
	}
	return out
}

// ecdhCurves are those that Envoy can agree on keys by.
var ecdhCurves = []string{"P-256", "P-384", "P-521", "X25519", "X25519MLKEM768"}
