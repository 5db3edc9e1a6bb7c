package credential

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Problem is a mistake in one value of a secret, or in its type if Key is empty.
type Problem struct{ Key, Reason, Hint string }

var validKey = regexp.MustCompile(`^[-._A-Za-z0-9]{1,253}$`)

// maxSize is the limit of a secret's size in Kubernetes.
const maxSize = 1 << 20

// Check finds the mistakes in a secret. It accepts an expired certificate: there may be no other.
func Check(kind string, data map[string][]byte) []Problem {
	c := &check{data: data}
	if kind != TLS && kind != Opaque && kind != Registries {
		c.add("", "is not one that is known here", "write kubernetes.io/tls, kubernetes.io/dockerconfigjson or Opaque")
	}
	if _, there := data[registriesKey]; !there && kind == Registries {
		c.add(registriesKey, "is missing", "")
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(data)) {
		size += len(data[name])
		c.value(name)
	}
	if size > maxSize {
		c.add(slices.Sorted(maps.Keys(data))[0], "is part of a secret larger than 1 MiB", "a certificate with its chain has a few KiB")
	}
	for _, n := range pairs {
		c.pair(n.chain, n.key, kind == TLS && n.chain == "tls.crt")
	}
	return c.problems
}

type check struct {
	data     map[string][]byte
	problems []Problem
}

func (c *check) add(key, reason, hint string) {
	c.problems = append(c.problems, Problem{key, reason, hint})
}

func (c *check) value(name string) {
	switch {
	case !validKey.MatchString(name):
		c.add(name, "is not a valid key", `at most 253 letters, digits, "-", "_" and "."`)
	case IsPublic(name):
		c.certificates(name)
	case name == "key" || name == "tls.key":
		c.privateKey(name)
	case name == registriesKey:
		c.registries()
	}
}

func (c *check) certificates(name string) {
	found := false
	for block, rest := pem.Decode(c.data[name]); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		found = true
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			c.add(name, "has a certificate that cannot be read", "write it again as its authority gave it")
			return
		}
	}
	if !found {
		c.add(name, "has no certificate", "write PEM, which begins with -----BEGIN CERTIFICATE-----")
	}
}

func (c *check) privateKey(name string) {
	for block, rest := pem.Decode(c.data[name]); block != nil; block, rest = pem.Decode(rest) {
		switch {
		case block.Type == "ENCRYPTED PRIVATE KEY" || strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED"):
			c.add(name, "is encrypted with a passphrase, which no gateway knows", "decrypt it first: openssl pkey -in FILE")
			return
		case strings.HasSuffix(block.Type, "PRIVATE KEY"):
			return
		}
	}
	c.add(name, "has no private key", "write PEM, which begins with -----BEGIN PRIVATE KEY-----")
}

// pair checks that a certificate and its key are both there and match. needed says that the secret
// must have this pair.
func (c *check) pair(chain, key string, needed bool) {
	_, hasChain := c.data[chain]
	_, hasKey := c.data[key]
	if !hasChain && (hasKey || needed) {
		c.add(chain, "is missing", "")
	}
	if !hasKey && (hasChain || needed) {
		c.add(key, "is missing", "")
	}
	if !hasChain || !hasKey || slices.ContainsFunc(c.problems, func(p Problem) bool { return p.Key == chain || p.Key == key }) {
		return
	}
	if _, err := tls.X509KeyPair(c.data[chain], c.data[key]); err != nil {
		c.add(key, "is not the key of the certificate in "+chain, "the certificate of the key comes first, and those that signed it after it")
	}
}
